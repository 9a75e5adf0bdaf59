"""The Python interface, for notebooks and scripts: maps, replays, simulated runs, run files,
running daemons.

`macontrol.__all__` lists the promised names. Everything else in this package is private and may
change with any version.
"""
