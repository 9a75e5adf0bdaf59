"""What a clock is: it tells the time and waits for a moment.

The slot loop, the stages and the probes keep time by a clock they are given, so that all of them
run on the machine's clock or, as quickly as they compute, on a virtual one.
"""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """A monotonic time in seconds, from an arbitrary start."""

    def now(self) -> float:
        """Get the time in seconds."""
        ...

    def sleep_until(self, moment: float) -> None:
        """Wait until a moment; return at once if it has passed."""
        ...
