"""Boards that are not there: they answer on a pseudo-terminal and move a computed carriage.

`port` is the wire, `device` what is behind any wire, `axis` a motor that counts its steps. On
these stand a Zaber device (`zaber`) and a GRBL board (`grbl`, with its main program, its G-code,
its axis and its reports in files of their own).
"""
