"""Simulated benches: one in memory, one on real wires, and faults for both."""
