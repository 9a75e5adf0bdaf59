"""What people and service managers see of a run: the live view, the log, the summary."""
