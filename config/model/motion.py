"""Trapezoid motion: how far an axis has moved after a time, and how long a distance takes.

The axis ramps up with a constant acceleration, runs at its speed, and ramps down; a short motion
never reaches the speed and is a triangle. Any unit of length works, as long as it is the same
everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt


@dataclass(frozen=True, slots=True)
class Trapezoid:
    """The motion of an axis from standstill to standstill."""

    speed: float
    acceleration: float = inf
    """Infinite: the axis has its full speed at once."""

    def time_s(self, distance: float) -> float:
        """The duration of a motion: 2√(d/a), or d/v + v/a if it reaches full speed."""
        speed, acceleration = self.speed, self.acceleration
        if acceleration == inf:
            return distance / speed
        if distance <= speed * (speed / acceleration):
            return 2 * sqrt(distance / acceleration)
        return distance / speed + speed / acceleration

    def reach(self, time_s: float) -> float:
        """The longest distance in a given time: the inverse of `time_s`."""
        speed, acceleration = self.speed, self.acceleration
        time_s = max(time_s, 0.0)
        if acceleration == inf:
            return speed * time_s
        if time_s <= 2 * speed / acceleration:
            return acceleration * time_s**2 / 4
        return speed * (time_s - speed / acceleration)

    def ramp_s(self, total_s: float) -> float:
        """The duration of the first ramp of a motion of `total_s`; the last ramp is as long."""
        return 0.0 if self.acceleration == inf else min(self.speed / self.acceleration, total_s / 2)

    def covered(self, elapsed_s: float, distance: float) -> float:
        """The part of a distance that is covered some time after the start."""
        total_s = self.time_s(distance)
        if elapsed_s <= 0:
            return 0.0
        if elapsed_s >= total_s:
            return distance
        if self.acceleration == inf:
            return self.speed * elapsed_s
        ramp_s = self.ramp_s(total_s)
        if elapsed_s <= ramp_s:
            return self.acceleration * elapsed_s**2 / 2
        if elapsed_s <= total_s - ramp_s:
            return self.acceleration * ramp_s * (elapsed_s - ramp_s / 2)
        return distance - self.acceleration * (total_s - elapsed_s) ** 2 / 2

    def speed_after(self, elapsed_s: float, distance: float) -> float:
        """The speed some time after the start of a motion."""
        total_s = self.time_s(distance)
        if not 0 <= elapsed_s < total_s:
            return 0.0
        if self.acceleration == inf:
            return self.speed
        return self.acceleration * min(elapsed_s, self.ramp_s(total_s), total_s - elapsed_s)
