"""The output of a run: live view, log and summary."""
