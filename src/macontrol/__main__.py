"""`python -m macontrol` is the `macontrol` command."""

import os
import signal
import sys


def entry() -> int:
    """Load the command line and run it. Loading takes a second; Ctrl-C works meanwhile too."""
    _ignore_early_signals()
    try:
        from macontrol.cli import main
    except KeyboardInterrupt:
        print("macontrol: interrupted", file=sys.stderr)
        return 130
    return main()


def _ignore_early_signals() -> None:
    """Ignore the signals that a run handles, while it is loaded and after its end.

    A service that SIGHUP ends is not restarted. In a terminal SIGHUP ends the program as usual.
    """
    signal.signal(signal.SIGUSR1, lambda *_: None)
    if "NOTIFY_SOCKET" in os.environ:
        signal.signal(signal.SIGHUP, lambda *_: None)


if __name__ == "__main__":
    sys.exit(entry())
