"""An emulated GRBL board."""
