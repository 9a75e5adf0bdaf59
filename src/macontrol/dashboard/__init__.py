"""The dashboard: a web page that shows running daemons and recorded runs, and can act on daemons.

It is a process of its own and needs the extra `web` (Tornado). The server itself needs no NumPy:
what is computed from a run file is computed by `digest`, in a process that ends after it.
"""
