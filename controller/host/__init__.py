"""The computer of a run: instance lock, service manager, real-time setup, devices."""
