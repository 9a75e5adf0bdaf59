"""The Probe protocol: measure the reward over an interval of time.

A probe works in parallel to the slot loop. The loop requests an interval in advance and collects
finished measurements later. A late reward still belongs to the slot in which it was measured. An
invalid measurement has no reward.

Nothing here depends on how a probe measures: with a software radio, a power meter, or a simulation.
What only some probes can do is in `hal.capabilities`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, nan
from typing import Protocol

NO_SIGNAL = "no-signal"
"""Reason: the power is at the noise floor."""
TONE_LOST = "tone-lost"
"""Reason: the power in the tone's band is at the noise floor, but another band has a new line."""
FLOOR_IS_MEASURED = "noise-floor"
"""Reason: an operator requested a noise floor measurement in this slot. This is not a fault."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """The result for one slot."""

    slot: int
    reward: float
    """The rate (eq. reward) measured in the slot; NaN if the measurement is invalid."""
    valid: bool
    uncertainty: float = nan
    """Standard deviation of the reward; NaN if unknown."""
    reason: str = ""
    """Why the measurement is invalid, as one short noun.

    A valid measurement at the noise floor has a reason too: the fault it indicates if it persists.
    """
    above_floor: float = inf
    """Distance from the noise floor, in multiples of what noise alone can cause.

    Below 1 there is possibly no signal. It is inf for a probe without a noise floor.
    """
    hint: str = ""
    """What the operator can do about the reason."""


class Probe(Protocol):
    """A source of rewards. Every method can raise ProbeError; none waits past its deadline."""

    def request(self, slot: int, start_s: float, end_s: float) -> None:
        """Request the reward of a slot, measured between two times on the clock.

        On ProbeError the request is not accepted and has no result. Results of earlier requests
        can still be collected.
        """
        ...

    def collect(self, deadline_s: float) -> Sequence[Measurement]:
        """Return all finished measurements; wait for the latest request until the deadline."""
        ...

    def close(self) -> None:
        """Release the hardware. A second call has no effect."""
        ...
