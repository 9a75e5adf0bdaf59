"""Emulated boards: they answer on a pseudo-terminal and move a simulated carriage.

`port` is the serial port, `device` the part that all boards share, `axis` a motor that counts its
steps. A Zaber device (`zaber`) and a GRBL board (`grbl`) are built from these.
"""
