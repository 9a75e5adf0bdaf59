"""An axis that is moved by counting steps: what it counts and where it truly is are two things.

So it is on any stage without an encoder: the count goes on when the carriage is stuck, and knows
nothing of lost steps.
"""

from __future__ import annotations

from math import inf

from macontrol.config.model.motion import Trapezoid
from macontrol.sim.world.carriage import Carriage

_OVERRUN_MM = 1.0
"""How far beyond both ends of its travel the carriage meets something hard."""


class CountedAxis:
    """The count begins at 0, wherever the carriage is. Positions in mm, times in seconds."""

    def __init__(self, true_mm: float) -> None:
        self.counted = Carriage(0.0)
        self.true = Carriage(true_mm)
        self.is_stuck = False

    def move(
        self, target_mm: float, begin_s: float, motion: Trapezoid, ends_mm: tuple[float, float]
    ) -> None:
        """Count to a position from a stand, and move as much, as far as there is rail."""
        before = self.counted.position_at(begin_s)
        self.counted.move(target_mm, begin_s, motion)
        if not self.is_stuck:
            low, high = ends_mm
            reached = self.true.position_at(begin_s) + target_mm - before
            self.true.move(
                min(max(reached, low - _OVERRUN_MM), high + _OVERRUN_MM), begin_s, motion
            )

    def brake(self, now: float, acceleration: float = inf) -> None:
        """Decelerate to a stand, or stand at once."""
        self.counted.brake(now, acceleration)
        self.true.brake(now, acceleration)

    def stick(self, now: float) -> None:
        """Block the carriage."""
        self.is_stuck = True
        self.true.brake(now, inf)

    def release(self) -> None:
        """Free the carriage."""
        self.is_stuck = False
