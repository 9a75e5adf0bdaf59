"""The schedule of a run: which slot begins when, which ones are missed, when the run is over.

Slots are numbered by time, so a missed slot leaves a gap in the numbers. Boundaries are computed
from the first one, so errors do not add up.
"""

from __future__ import annotations

from math import ceil, inf

_ROUNDING_SLOTS = 1e-6


class Schedule:
    """The slots of one run, from its first boundary `begin_s` on."""

    def __init__(
        self,
        slot_s: float,
        begin_s: float,
        *,
        first_slot: int = 1,
        slots: int | None = None,
        duration_s: float | None = None,
    ) -> None:
        """The run ends after `slots` slots, not counting missed ones, or after `duration_s`."""
        self.slot = first_slot
        """The next slot."""
        self._slot_s = slot_s
        self._begin_s = begin_s
        self._first_slot = first_slot
        self._left = inf if slots is None else slots
        # In slots: the difference of two times has a rounding error.
        self._end = inf if duration_s is None else first_slot + duration_s / slot_s
        self._end -= _ROUNDING_SLOTS

    @property
    def start_s(self) -> float:
        """s_t, the boundary at which the next slot begins."""
        return self._begin_s + (self.slot - self._first_slot) * self._slot_s

    @property
    def is_over(self) -> bool:
        return self.slot >= self._end or self._left <= 0

    def advance(self) -> None:
        """Continue with the next slot after one that was run."""
        self.slot += 1
        self._left -= 1

    def skip(self, late_s: float) -> int:
        """Skip the slots that began in the last `late_s`; return how many of the run they are."""
        missed = 1 + int(late_s / self._slot_s)
        if self.slot + missed > self._end:
            missed = ceil(self._end - self.slot)
        self.slot += missed
        return missed
