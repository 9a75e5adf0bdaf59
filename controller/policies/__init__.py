"""Policies: kernel, features, posterior, MoveUCB, the baselines, and the paper's theory."""
