"""Probe drivers, one package each, and what those with a stream of IQ samples share (`sdr`)."""
