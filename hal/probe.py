"""What a probe is: it measures the reward over an interval of time.

A probe works beside the slot loop: an interval is requested ahead, and what is ready is collected
later. A reward that comes late is still the reward of the slot it was measured in; a measurement
that is not valid carries no reward at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol

NO_SIGNAL = "no-signal"
"""The reason of a power at the noise floor …"""
TONE_LOST = "tone-lost"
"""… and of one whose tone stands outside its band."""
FLOOR_IS_MEASURED = "noise-floor"
"""The reason of a slot in which a person had the noise floor measured: no fault."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """The outcome of one slot's measurement."""

    slot: int
    reward: float
    """The rate (eq. reward) seen in the slot; NaN if the measurement is not valid."""
    valid: bool
    uncertainty: float = float("nan")
    """Standard deviation of the reward; NaN if unknown."""
    reason: str = ""
    """Why it is not valid, in a word: clipping, gap, overflow, stale …

    Of a valid one at the noise floor: what it is if that lasts.
    """
    above_floor: float = inf
    """How far the power stands above the noise floor, in multiples of what noise alone may show.

    Below 1 there may be no signal; inf from a probe that has no noise floor.
    """
    hint: str = ""
    """What a person may do about the reason."""


class Probe(Protocol):
    """A source of rewards. Any method may raise ProbeError; none may wait past its deadline."""

    def request(self, slot: int, start_s: float, end_s: float) -> None:
        """Ask for the reward of a slot, measured between two moments of the clock.

        What raises ProbeError was not taken, and nothing comes of it. What was taken before can
        still be collected.
        """
        ...

    def collect(self, deadline_s: float) -> Sequence[Measurement]:
        """Get what has become ready, waiting for the latest request until the deadline."""
        ...

    def close(self) -> None:
        """Let go of the hardware."""
        ...
