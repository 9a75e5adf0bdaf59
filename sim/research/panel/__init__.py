"""The panel: policies in many worlds, compared with MoveUCB as published."""
