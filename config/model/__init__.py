"""Pure facts that every room shares: errors, the grid, rounding. It imports nothing of ours."""
