"""Time stamps of samples from the arrival times of blocks.

A block can arrive late but never early. The offset of a block is its arrival time minus n/fs, where
n is the number of samples up to its end. The lower envelope of the offsets over some seconds is
therefore the time at which sample 0 was taken, independent of delivery jitter.

A block that is on time by this envelope also proves that no samples before it are missing: lost
samples are never delivered later, so they make every following block late.
"""

from __future__ import annotations

from collections import deque
from math import inf, nan

ENVELOPE_S = 8.0
"""Memory of the envelope. A sample clock that is 100 ppm slow then causes an error of 0.8 ms."""
LOST_AFTER_S = 1.0
"""Samples count as lost if all blocks are late for this time without catching up."""
EARLY_S = 0.05
"""A block earlier than the envelope improves it. One earlier by more than this breaks it."""
CLOCK_TOLERANCE = 0.005
"""A larger error of the sample clock shifts samples by more than a guard in the longest window."""


class ArrivalEnvelope:
    """The lower envelope of block offsets."""

    def __init__(self, tolerance_s: float) -> None:
        self._tolerance_s = tolerance_s
        self.reset()

    def reset(self) -> None:
        # Rising offsets only, oldest first: the first is the lowest of all recent ones.
        self._lowest: deque[tuple[float, float]] = deque()
        # When the envelope was last compared with the sample clock, and its offset at that time.
        self._reference_at_s, self._reference_offset_s = inf, nan

    @property
    def is_empty(self) -> bool:
        return not self._lowest

    @property
    def offset_s(self) -> float:
        """The time of sample 0 on the clock; NaN before the first block."""
        return self._lowest[0][1] if self._lowest else nan

    def set_reference(self, arrival_s: float) -> None:
        """Start to compare the envelope with the sample clock."""
        self._reference_at_s, self._reference_offset_s = arrival_s, self.offset_s

    def add(self, offset_s: float, arrival_s: float) -> None:
        """Add a block that is on time.

        Old offsets are dropped only here, so that a backlog never becomes the new envelope.
        """
        lowest = self._lowest
        while lowest and lowest[-1][1] >= offset_s:
            lowest.pop()
        lowest.append((arrival_s, offset_s))
        while lowest[0][0] < arrival_s - ENVELOPE_S:
            lowest.popleft()

    def is_late(self, offset_s: float) -> bool:
        return offset_s > self.offset_s + self._tolerance_s

    def is_early(self, offset_s: float, arrival_s: float) -> bool:
        """Whether a block is earlier than jitter explains: the clock stopped, or runs too fast."""
        if arrival_s - self._reference_at_s > ENVELOPE_S:
            self.set_reference(arrival_s)
        allowed_s = EARLY_S + CLOCK_TOLERANCE * (arrival_s - self._reference_at_s)
        return offset_s < max(self.offset_s - EARLY_S, self._reference_offset_s - allowed_s)


class Backlog:
    """Late blocks in sequence: lost samples stay late, queued samples catch up."""

    def __init__(self, tolerance_s: float) -> None:
        self._tolerance_s = tolerance_s
        self.clear()

    def clear(self) -> None:
        """A block was on time."""
        self._since_s: float | None = None
        self.smallest_s = 0.0
        """The smallest lateness so far."""
        self._smallest_at_s = 0.0

    def add(self, lateness_s: float, arrival_s: float) -> None:
        if self._since_s is None:
            self._since_s = arrival_s
        elif lateness_s >= self.smallest_s - self._tolerance_s:
            return
        self.smallest_s, self._smallest_at_s = lateness_s, arrival_s

    def is_loss(self, arrival_s: float) -> bool:
        """Whether the stream has stopped catching up."""
        return arrival_s - self._smallest_at_s > LOST_AFTER_S

    def is_slow(self, arrival_s: float) -> bool:
        """Whether the stream has been late for a long time, even if it catches up."""
        return self._since_s is not None and arrival_s - self._since_s > 2 * LOST_AFTER_S
