"""`python -m macontrol` is the `macontrol` command."""

import os
import signal
import sys


def entry() -> int:
    """Load the command line and run it. Loading takes a second, in which Ctrl-C is heard too."""
    _outlast_signals()
    try:
        from macontrol.cli import main
    except KeyboardInterrupt:
        print("macontrol: interrupted", file=sys.stderr)
        return 130
    return main()


def _outlast_signals() -> None:
    """Do not die of what a run listens to, before and after it does.

    A service that SIGHUP has ended stays down; in a terminal SIGHUP ends what is loading.
    """
    signal.signal(signal.SIGUSR1, lambda *_: None)
    if "NOTIFY_SOCKET" in os.environ:
        signal.signal(signal.SIGHUP, lambda *_: None)


if __name__ == "__main__":
    sys.exit(entry())
