"""The slot loop and its parts: guard, actuation, measurement, recovery, clocks."""
