"""Policies at work in simulated worlds: replay, campaigns over realizations, the paper's figures.

The one part of the simulator that may import the controller.
"""
