"""Plots of figures, runs and surveys. Only this package needs matplotlib, which is optional."""
