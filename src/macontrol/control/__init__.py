"""The control socket: operators and programs watch and steer a running daemon.

`server` is a process of its own, `link` connects the daemon to it, `actions` decides what an
operator may do in which state, `client` is for commands and the Python interface.
"""
