"""An axis that counts steps, as on a stage without an encoder.

The count and the true position can differ: the count continues when the carriage is stuck, and
does not include lost steps.
"""

from __future__ import annotations

from math import inf

from macontrol.config.model.motion import Trapezoid
from macontrol.sim.world.carriage import Carriage

_OVERRUN_MM = 1.0
"""The carriage hits the end of the rail this far beyond its travel."""


class CountedAxis:
    """The count starts at 0 at any position of the carriage. Units: mm and seconds."""

    def __init__(self, true_mm: float) -> None:
        self.counted = Carriage(0.0)
        self.true = Carriage(true_mm)
        self.is_stuck = False
        """Whether the carriage is blocked."""

    def move(
        self, target_mm: float, begin_s: float, motion: Trapezoid, ends_mm: tuple[float, float]
    ) -> None:
        """Count to a position, and move the carriage as far, at most to the end of the rail."""
        before = self.counted.position_at(begin_s)
        self.counted.move(target_mm, begin_s, motion)
        if not self.is_stuck:
            low, high = ends_mm
            reached = self.true.position_at(begin_s) + target_mm - before
            self.true.move(
                min(max(reached, low - _OVERRUN_MM), high + _OVERRUN_MM), begin_s, motion
            )

    def brake(self, now: float, acceleration: float = inf) -> None:
        """Decelerate to standstill, by default at once."""
        self.counted.brake(now, acceleration)
        self.true.brake(now, acceleration)

    def stick(self, now: float) -> None:
        """Block the carriage."""
        self.is_stuck = True
        self.true.brake(now, inf)
