"""A/B trials: policies alternate in blocks on one bench, and their rewards are compared."""
