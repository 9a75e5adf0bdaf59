"""Policies in simulated worlds: replay, oracle and regret, reproduction of the paper's figures.

This is the only part of the simulator that may import the controller.
"""
