"""Stop requests by signal: after the first the run ends with its slot, after the second at once.

SIGHUP is a stop request where a terminal can hang up. A service has no terminal and ignores SIGHUP:
a service that ends with success is not restarted.
"""

from __future__ import annotations

import signal
import time
from contextlib import ExitStack
from types import FrameType

from macontrol.controller.runtime.stop import StopToken

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""A signal that is ignored at the start, as with `nohup`, stays ignored."""
_DEBOUNCE_S = 0.05
"""Debounce: `timeout` signals the process and its group."""


class ForcedStop(KeyboardInterrupt):
    """A second signal: end without waiting for the slot. This is not an error."""


class StopSignals:
    """Handles signals from `__enter__` to `__exit__`; the first one requests `stop`."""

    def __init__(self, *, ignore_hang_up: bool = False) -> None:
        self._ignore_hang_up = ignore_hang_up
        self.stop = StopToken()
        self.hang_ups = 0
        """How many SIGHUP were ignored since this was last reset."""
        self.first = 0
        """The number of the first signal; 0 before it."""
        self._first_at_s = 0.0
        self._handlers = ExitStack()

    def __enter__(self) -> StopSignals:
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                before = signal.signal(number, self._handle)
                self._handlers.callback(signal.signal, number, before)
        return self

    def __exit__(self, *_: object) -> None:
        self._handlers.close()

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
        self.stop.request(signal.Signals(number).name)
