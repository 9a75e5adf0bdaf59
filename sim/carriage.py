"""Where a carriage is, was and will be: its motion as pieces of constant acceleration.

Unlike `Actuator`, which knows one motion at a time, it can be slowed down in mid-motion and asked
about moments that have passed, as a radio does whose samples come late.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from math import copysign, inf

from macontrol.hal import StageDescription
from macontrol.sim.actuator import motion_time

_KEPT_S = 10.0


@dataclass(frozen=True, slots=True)
class _Piece:
    start_s: float
    position_mm: float
    speed: float = 0.0
    acceleration: float = 0.0

    def position_at(self, now: float) -> float:
        elapsed = now - self.start_s
        return self.position_mm + self.speed * elapsed + self.acceleration * elapsed**2 / 2

    def speed_at(self, now: float) -> float:
        return self.speed + self.acceleration * (now - self.start_s)


class Carriage:
    """One axis of motion. Positions in millimetres, times in seconds on any one clock."""

    def __init__(self, position_mm: float) -> None:
        self._pieces = [_Piece(-inf, position_mm)]

    @property
    def still_at(self) -> float:
        """The moment from which it stands."""
        return self._pieces[-1].start_s

    def position_at(self, now: float) -> float:
        """Where it is at a moment (mm)."""
        piece = self._piece_at(now)
        return piece.position_mm if piece.start_s == -inf else piece.position_at(now)

    def speed_at(self, now: float) -> float:
        """How fast it is at a moment (mm/s), with the sign of its direction."""
        piece = self._piece_at(now)
        return 0.0 if piece.start_s == -inf else piece.speed_at(now)

    def move(self, target_mm: float, begin_s: float, stage: StageDescription) -> None:
        """Set out from a stand for a position."""
        self._cut(begin_s)
        start = self.position_at(begin_s)
        distance = abs(target_mm - start)
        if distance > 0:
            total = motion_time(distance, stage)
            rate = stage.acceleration_mm_per_s2
            ramp = 0.0 if rate == inf else min(stage.speed_mm_per_s / rate, total / 2)
            sign = copysign(1.0, target_mm - start)
            top = sign * (stage.speed_mm_per_s if rate == inf else rate * ramp)
            if ramp > 0:
                self._add(_Piece(begin_s, start, 0.0, sign * rate))
            ramped = start + top * ramp / 2
            self._add(_Piece(begin_s + ramp, ramped, top))
            if ramp > 0:
                braking = begin_s + total - ramp
                self._add(_Piece(braking, target_mm - top * ramp / 2, top, -sign * rate))
            self._add(_Piece(begin_s + total, target_mm))

    def brake(self, now: float, acceleration: float) -> None:
        """Decelerate to a stand from a moment on."""
        position, speed = self.position_at(now), self.speed_at(now)
        self._cut(now)
        if speed == 0 or acceleration == inf:
            self._add(_Piece(now, position))
            return
        time = abs(speed) / acceleration
        self._add(_Piece(now, position, speed, -copysign(acceleration, speed)))
        self._add(_Piece(now + time, position + speed * time / 2))

    def put(self, position_mm: float, now: float) -> None:
        """Stand at a position from a moment on, however it got there."""
        self._cut(now)
        self._add(_Piece(now, position_mm))

    def shift(self, by_mm: float, now: float) -> None:
        """Be elsewhere from a moment on, in the midst of a motion: steps are lost."""
        coming = [piece for piece in self._pieces if piece.start_s > now]
        here = _Piece(now, self.position_at(now) + by_mm, self.speed_at(now), self._rate_at(now))
        self._cut(now)
        for piece in (here, *coming):
            moved = piece.position_mm if piece is here else piece.position_mm + by_mm
            self._add(_Piece(piece.start_s, moved, piece.speed, piece.acceleration))

    def _rate_at(self, now: float) -> float:
        return self._piece_at(now).acceleration

    def _piece_at(self, now: float) -> _Piece:
        index = bisect_right(self._pieces, now, key=lambda piece: piece.start_s) - 1
        return self._pieces[max(index, 0)]

    def _cut(self, now: float) -> None:
        """Drop what was to come after a moment."""
        self._pieces = [piece for piece in self._pieces if piece.start_s <= now]

    def _add(self, piece: _Piece) -> None:
        pieces = [*self._pieces, piece]
        while len(pieces) > 2 and pieces[1].start_s < piece.start_s - _KEPT_S:
            pieces.pop(0)
        self._pieces = pieces
