"""What is kept of a run: records, the tally, the run file."""
