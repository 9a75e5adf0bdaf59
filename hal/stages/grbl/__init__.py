"""Stages driven by a GRBL 1.1 board or one of its dialects (grblHAL, FluidNC)."""
