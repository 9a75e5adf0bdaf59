"""Stop requests by signal: after the first a run ends with its slot, after the second at once.

SIGHUP is a stop request where a terminal may hang up. A service has none: it ignores SIGHUP, since
a service that ends with success stays down.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""One that is ignored at the start, as with `nohup`, stays ignored."""
_DEBOUNCE_S = 0.05
"""Debounce: `timeout` signals the process and its group."""


class ForcedStop(BaseException):
    """A second signal came: end without waiting for the slot. Like KeyboardInterrupt, no error."""


class StopSignals:
    """Listens from `__enter__` to `__exit__`."""

    def __init__(self, *, ignore_hang_up: bool = False) -> None:
        self._ignore_hang_up = ignore_hang_up
        self.hang_ups = 0
        """How many SIGHUP were ignored since this was last reset."""
        self.first = 0
        """The number of the signal that came first; 0 if none has come."""
        self._first_at_s = 0.0
        self._stop: Callable[[], None] | None = None
        self._handlers = ExitStack()

    def __enter__(self) -> StopSignals:
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                before = signal.signal(number, self._handle)
                self._handlers.callback(signal.signal, number, before)
        return self

    def __exit__(self, *_: object) -> None:
        self._handlers.close()

    def on_stop(self, stop: Callable[[], None]) -> None:
        """Call this at the first signal, at once if it has come already."""
        self._stop = stop
        if self.first:
            stop()

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGHUP and self._ignore_hang_up:
            self.hang_ups += 1
            return
        now = time.monotonic()
        if self.first:
            if number == self.first and now - self._first_at_s < _DEBOUNCE_S:
                return
            raise ForcedStop
        self.first, self._first_at_s = number, now
        if self._stop is not None:
            self._stop()
