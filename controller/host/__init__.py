"""The computer a run is on: instance lock, service manager, real-time setup, devices."""
