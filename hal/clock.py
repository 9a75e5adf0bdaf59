"""The Clock protocol: read the time and wait for a point in time.

The slot loop, the stages and the probes use the clock they are given. The same code runs on the
clock of the machine, or as fast as it computes on a virtual clock.
"""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """A monotonic time in seconds, from an arbitrary start."""

    def now(self) -> float:
        """Return the time in seconds."""

    def sleep_until(self, moment: float) -> None:
        """Wait until a point in time; return immediately if it has passed."""
