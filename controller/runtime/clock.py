"""The two clocks: the machine's monotonic clock with absolute deadlines, and a virtual one."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

SPIN_S = 2e-4
"""The longest spin in a wait: longer than a usual kernel delay, a few percent of a core."""

# The margin grows by one step after a wake-up that was later, and shrinks by this share of a step
# after any other: it settles where this share of the wake-ups is later.
_FIRST_MARGIN_S = 1e-4
_STEP_S = 1e-6
_LATE_SHARE = 0.1

# A thread requests the interpreter lock after this time: the slot thread soon after it wakes up,
# other threads not while it works.
_SWITCH_ASLEEP_S = 1e-4
_SWITCH_AWAKE_S = 5e-3


class WallClock:
    """The machine's monotonic clock. Deadlines are absolute, so errors do not add up.

    The kernel wakes a thread about 50 µs late. With `spin_s` above 0 the sleep ends earlier by a
    margin of at most `spin_s`, and the thread spins for the rest. The margin adapts to the kernel,
    since spinning costs CPU time. This is for a SCHED_FIFO thread only: normal scheduling preempts
    a spinning thread first.
    """

    def __init__(self, spin_s: float = 0.0) -> None:
        self.spin_s = spin_s
        self._margin_s = _FIRST_MARGIN_S

    def now(self) -> float:
        return time.monotonic()

    def sleep_until(self, moment: float) -> None:
        monotonic = time.monotonic
        if self.spin_s <= 0:
            left = moment - monotonic()
            if left > 0:
                time.sleep(left)
            return
        margin = min(self._margin_s, self.spin_s)
        left = moment - margin - monotonic()
        if left > 0:
            sys.setswitchinterval(_SWITCH_ASLEEP_S)
            time.sleep(left)
            sys.setswitchinterval(_SWITCH_AWAKE_S)
            late = monotonic() > moment
            self._margin_s = margin + (_STEP_S if late else -_STEP_S * _LATE_SHARE)
        while monotonic() < moment:
            pass


class VirtualClock:
    """A clock that jumps to the end of each wait: the loop runs as fast as it computes."""

    def __init__(self, start: float = 0.0, on_wait: Callable[[], None] | None = None) -> None:
        self._now = start
        self._on_wait = on_wait

    def now(self) -> float:
        return self._now

    def sleep_until(self, moment: float) -> None:
        self._now = max(self._now, moment)
        if self._on_wait is not None:
            self._on_wait()
