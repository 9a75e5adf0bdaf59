"""How a run is told to stop: once, and it ends after its slot; twice, and it ends at once."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""Who starts a run with one of them ignored, as `nohup` does, is not stopped by it."""
_SAME_WISH_S = 0.05
"""The same signal again so soon is no second wish: `timeout` sends it to process and group."""


class ForcedStop(BaseException):
    """A second signal came: end without waiting for the slot. Like KeyboardInterrupt, no error."""


class StopSignals:
    """Listens from `__enter__` to `__exit__`."""

    def __init__(self) -> None:
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
        now = time.monotonic()
        if self.first:
            if number == self.first and now - self._first_at_s < _SAME_WISH_S:
                return
            raise ForcedStop
        self.first, self._first_at_s = number, now
        if self._stop is not None:
            self._stop()
