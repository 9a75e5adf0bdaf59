"""The slot loop and its parts: schedule, actuation, measurement, decision, guard, recovery."""
