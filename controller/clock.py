"""The two clocks: the machine's, kept by absolute deadlines, and a virtual one."""

from __future__ import annotations

import time
from collections.abc import Callable


class WallClock:
    """The machine's monotonic clock. Deadlines are absolute, so errors never add up."""

    def now(self) -> float:
        return time.monotonic()

    def sleep_until(self, moment: float) -> None:
        left = moment - time.monotonic()
        if left > 0:
            time.sleep(left)


class VirtualClock:
    """A clock that jumps to the moment waited for: the loop runs as quickly as it computes."""

    def __init__(self, start: float = 0.0, on_wait: Callable[[], None] | None = None) -> None:
        self._now = start
        self._on_wait = on_wait

    def now(self) -> float:
        return self._now

    def sleep_until(self, moment: float) -> None:
        self._now = max(self._now, moment)
        if self._on_wait is not None:
            self._on_wait()
