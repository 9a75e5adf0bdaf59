"""Probe drivers, one package each, and the common part of those with an IQ stream (`sdr`)."""
