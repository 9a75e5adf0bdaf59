"""The times in which a run has switched the transmitter off, to measure the noise floor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf

_MOST_KEPT = 64
"""A late reward belongs to a slot of the window, which has fewer measurements of the floor."""


class Silence:
    """Noted by the thread that measures the noise floor, respected by the slot thread.

    Meanwhile the antenna holds, and slots have no reward.
    """

    def __init__(self) -> None:
        self._intervals: tuple[tuple[float, float], ...] = ()
        self._begun_s = inf
        self.is_on = False

    @contextmanager
    def kept(self, now: Callable[[], float]) -> Iterator[None]:
        """The silence lasts as long as the `with`."""
        self._begun_s = now()
        self.is_on = True
        try:
            yield
        finally:
            self._intervals = (*self._intervals[1 - _MOST_KEPT :], (self._begun_s, now()))
            self.is_on = False

    def overlaps(self, start_s: float, end_s: float) -> bool:
        """Whether a part of this time is silent."""
        if self.is_on and end_s > self._begun_s:
            return True
        return any(start_s < end and end_s > begun for begun, end in self._intervals)
