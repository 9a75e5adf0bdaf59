"""A simulated carriage: where it is, was and will be.

Its motion is a sequence of segments. It can brake and lose steps in the middle of a motion, and
it answers for moments that have passed, because the samples of a radio arrive late. One thread
may move it while others read its position.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from math import copysign, inf

from macontrol.config.model.motion import Trapezoid


@dataclass(frozen=True, slots=True)
class _Segment:
    """Standstill at a position; the other segments move from there."""

    start_s: float
    position_mm: float

    def position_at(self, now: float) -> float:
        return self.position_mm

    def speed_at(self, now: float) -> float:
        return 0.0


@dataclass(frozen=True, slots=True)
class _Move(_Segment):
    """A motion by a distance, with the sign of its direction."""

    distance_mm: float
    motion: Trapezoid
    begin_s: float
    """When the motion began; the segment may start later."""

    def position_at(self, now: float) -> float:
        covered = self.motion.covered(now - self.begin_s, abs(self.distance_mm))
        return self.position_mm + copysign(covered, self.distance_mm)

    def speed_at(self, now: float) -> float:
        speed = self.motion.speed_after(now - self.begin_s, abs(self.distance_mm))
        return copysign(speed, self.distance_mm)


@dataclass(frozen=True, slots=True)
class _Braking(_Segment):
    """A constant deceleration; the next segment begins when the speed is 0."""

    speed: float
    acceleration: float
    begin_s: float

    def position_at(self, now: float) -> float:
        elapsed = now - self.begin_s
        return self.position_mm + self.speed * elapsed + self.acceleration * elapsed**2 / 2

    def speed_at(self, now: float) -> float:
        return self.speed + self.acceleration * (now - self.begin_s)


class Carriage:
    """One axis of motion. Positions in millimetres, times in seconds on any one clock."""

    def __init__(self, position_mm: float, *, history_s: float = 10.0) -> None:
        """Keep the motion of the last `history_s`."""
        self._history_s = history_s
        self._segments = [_Segment(-inf, position_mm)]

    @property
    def still_at(self) -> float:
        """The moment from which the carriage stands still."""
        return self._segments[-1].start_s

    def position_at(self, now: float) -> float:
        """The position at a moment (mm)."""
        return self._segment_at(now).position_at(now)

    def speed_at(self, now: float) -> float:
        """The speed at a moment (mm/s), with the sign of its direction."""
        return self._segment_at(now).speed_at(now)

    def move(self, target_mm: float, begin_s: float, motion: Trapezoid) -> None:
        """Start a motion from standstill to a position."""
        start_mm = self.position_at(begin_s)
        distance_mm = target_mm - start_mm
        if distance_mm == 0:
            return
        end_s = begin_s + motion.time_s(abs(distance_mm))
        self._continue_with(
            begin_s,
            _Move(begin_s, start_mm, distance_mm, motion, begin_s),
            _Segment(end_s, target_mm),
        )

    def brake(self, now: float, acceleration: float) -> None:
        """Decelerate to standstill from a moment on."""
        position, speed = self.position_at(now), self.speed_at(now)
        if speed == 0 or acceleration == inf:
            self.put(position, now)
            return
        time = abs(speed) / acceleration
        self._continue_with(
            now,
            _Braking(now, position, speed, -copysign(acceleration, speed), now),
            _Segment(now + time, position + speed * time / 2),
        )

    def put(self, position_mm: float, now: float) -> None:
        """Stand still at a position from a moment on."""
        self._continue_with(now, _Segment(now, position_mm))

    def shift(self, by_mm: float, now: float) -> None:
        """Lose steps: all positions from a moment on are shifted, also within a motion."""
        current = replace(self._segment_at(now), start_s=now)
        later = [segment for segment in self._segments if segment.start_s > now]
        shifted = [
            replace(segment, position_mm=segment.position_mm + by_mm)
            for segment in (current, *later)
        ]
        self._continue_with(now, *shifted)

    def _segment_at(self, now: float) -> _Segment:
        segments = self._segments  # another thread may replace the list
        index = bisect_right(segments, now, key=lambda segment: segment.start_s) - 1
        return segments[max(index, 0)]

    def _continue_with(self, now: float, *coming: _Segment) -> None:
        """Replace the segments after a moment, and forget old ones."""
        past = [segment for segment in self._segments if segment.start_s <= now]
        while len(past) > 1 and past[1].start_s < now - self._history_s:
            past.pop(0)
        self._segments = [*past, *coming]
