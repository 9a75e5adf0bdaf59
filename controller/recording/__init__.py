"""The records of a run: events, slots, their statistics, the run file."""
