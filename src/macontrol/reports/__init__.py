"""Recorded runs for people: the list of runs, the report of a run, the comparison of runs."""
