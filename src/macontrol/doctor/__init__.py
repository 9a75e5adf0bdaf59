"""The doctor examines whether a bench is ready for a run."""
