"""Detection of a stream whose sample rate is not the requested one.

Lost samples and stalls also change the number of samples per second for a while. The rate counts as
wrong only if it deviates in the same direction in both parts of the time since the connection.
"""

from __future__ import annotations

from collections import deque
from math import isnan, nan

from macontrol.config.model.errors import ProbeError

RATE_KNOWN_S = 5.0
"""Samples are counted for this time until the rate is known ..."""
RATE_TOLERANCE = 0.02
"""... with this relative error, because the last block of the server may be counted or not."""
_BREAKS_OF_A_WRONG_RATE = 3
_BREAKS_KEPT_S = 6.0


class RateMonitor:
    """Count the samples of a connection, and the breaks in it."""

    def __init__(self, sample_rate_hz: float) -> None:
        self._nominal_hz = sample_rate_hz
        self.is_doubted = False
        """Whether the rate was wrong, and has not been seen to be right since."""
        self.reset()

    def reset(self) -> None:
        """A connection begins."""
        self._total = 0
        self._first_arrival_s = nan
        self._last_arrival_s = nan
        # Time since the first arrival and samples until then. `_split` divides the time so that
        # neither part is short; `_next_split` replaces it later.
        self._split = self._next_split = (nan, 0)
        self._breaks_at_s: deque[float] = deque()

    def count(self, samples: int, arrival_s: float) -> None:
        """Count a block. The samples of the first block were taken before the time starts."""
        self._last_arrival_s = arrival_s
        if isnan(self._first_arrival_s):
            self._first_arrival_s = arrival_s
            return
        self._total += samples
        elapsed_s, due_s = self._elapsed_s, 2 * self._next_split[0]
        if elapsed_s >= (RATE_KNOWN_S / 2 if isnan(due_s) else due_s):
            self._split, self._next_split = self._next_split, (elapsed_s, self._total)

    def count_break(self, at_s: float) -> None:
        """Count a break; raise ProbeError if the wrong rate causes them repeatedly."""
        breaks = self._breaks_at_s
        breaks.append(at_s)
        while breaks[0] < at_s - _BREAKS_KEPT_S:
            breaks.popleft()
        if len(breaks) >= _BREAKS_OF_A_WRONG_RATE and self.is_steadily_wrong:
            raise self.refusal()

    @property
    def _elapsed_s(self) -> float:
        return self._last_arrival_s - self._first_arrival_s

    @property
    def measured_hz(self) -> float:
        """Samples per second since the connection began; NaN in the first 5 s.

        The error is up to one block of the server.
        """
        return self._total / self._elapsed_s if self._elapsed_s >= RATE_KNOWN_S else nan

    @property
    def is_wrong(self) -> bool:
        """Whether the rate is known and differs from the requested one."""
        rate = self.measured_hz
        return not isnan(rate) and abs(rate / self._nominal_hz - 1) > RATE_TOLERANCE

    @property
    def is_steadily_wrong(self) -> bool:
        """Whether the rate was wrong in the same direction in both parts of the time."""
        split_s, total = self._split
        if not self.is_wrong or isnan(split_s):
            return False
        before = total / split_s / self._nominal_hz - 1
        after = (self._total - total) / (self._elapsed_s - split_s) / self._nominal_hz - 1
        return before * after > 0 and min(abs(before), abs(after)) > RATE_TOLERANCE / 2

    @property
    def causes_losses(self) -> bool:
        """Whether samples are lost repeatedly because of a wrong rate."""
        since_s = self._last_arrival_s - _BREAKS_KEPT_S
        breaks = sum(at_s >= since_s for at_s in self._breaks_at_s)
        return breaks > 1 and self.is_steadily_wrong

    @property
    def description(self) -> str:
        """What arrived so far."""
        if not self._elapsed_s > 0:
            return "no samples arrive"
        return (
            "samples arrive too irregularly, or not at their rate: "
            f"{self._total / self._elapsed_s:,.0f} per second instead of {self._nominal_hz:,.0f}"
        )

    def refusal(self) -> ProbeError:
        """Doubt the rate from now on; return the error that closes the connection."""
        self.is_doubted = True
        return ProbeError(
            f"{self.measured_hz:,.0f} samples per second arrive, {self._nominal_hz:,.0f} were "
            "requested",
            "set probe.sample_rate_hz to a rate that the radio has and the computer can process",
        )
