"""The two clocks: the machine's, kept by absolute deadlines, and a virtual one."""

from __future__ import annotations

import time
from collections.abc import Callable

SPIN_S = 1e-4
"""About what a wake-up takes on a common kernel; each wait costs as much of a core."""


class WallClock:
    """The machine's monotonic clock. Deadlines are absolute, so errors never add up.

    The kernel wakes a thread some 50 µs late. With `spin_s` the sleep ends that much earlier and
    the rest is waited out awake. That is for a SCHED_FIFO thread only: in normal scheduling a
    thread that spins is the first to be put aside.
    """

    def __init__(self, spin_s: float = 0.0) -> None:
        self.spin_s = spin_s

    def now(self) -> float:
        return time.monotonic()

    def sleep_until(self, moment: float) -> None:
        monotonic, spin = time.monotonic, self.spin_s
        left = moment - monotonic() - spin
        if left > 0:
            time.sleep(left)
        if spin > 0:
            while monotonic() < moment:
                pass


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
