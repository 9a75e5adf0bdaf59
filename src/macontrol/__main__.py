"""`python -m macontrol` is the `macontrol` command."""

import os
import signal
import sys
import threading
import time
from contextlib import suppress

_THREADS_END_S = 2.0


def entry() -> int:
    """Load the command line and run it. Loading takes a second; Ctrl-C works meanwhile too."""
    _ignore_early_signals()
    try:
        from macontrol.cli import main
    except KeyboardInterrupt:
        print("macontrol: interrupted", file=sys.stderr)
        return 130
    code = main()
    _end_threads(code)
    return code


def _end_threads(code: int) -> None:
    """End the process although threads of a plug-in continue: Python would wait for them forever.

    All of macontrol is closed by now.
    """
    until_s, main_thread = time.monotonic() + _THREADS_END_S, threading.main_thread()
    left = [each for each in threading.enumerate() if not (each.daemon or each is main_thread)]
    for thread in left:
        thread.join(max(0.0, until_s - time.monotonic()))
    names = ", ".join(thread.name for thread in left if thread.is_alive())
    if names:
        print(f"macontrol: threads of a plug-in do not end: {names}", file=sys.stderr, flush=True)
        with suppress(OSError, ValueError):
            sys.stdout.flush()
        os._exit(code)


def _ignore_early_signals() -> None:
    """Ignore the signals that a run handles, while it is loaded and after its end.

    A service that SIGHUP ends is not restarted. In a terminal SIGHUP ends the program as usual.
    """
    signal.signal(signal.SIGUSR1, lambda *_: None)
    if "NOTIFY_SOCKET" in os.environ:
        signal.signal(signal.SIGHUP, lambda *_: None)


if __name__ == "__main__":
    sys.exit(entry())
