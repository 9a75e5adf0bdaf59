"""Where a carriage is, was and will be: its motion as pieces of constant acceleration.

Unlike `Actuator`, which knows one motion at a time, it can be slowed down in mid-motion and asked
about moments that have passed, as a radio does whose samples come late. One thread may move it
while others ask.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from math import copysign, inf

from macontrol.hal import StageDescription

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
        start = self.position_at(begin_s)
        distance = abs(target_mm - start)
        if distance == 0:
            return
        total = stage.motion_time_s(distance)
        rate = stage.acceleration_mm_per_s2
        ramp = 0.0 if rate == inf else min(stage.speed_mm_per_s / rate, total / 2)
        sign = copysign(1.0, target_mm - start)
        top = sign * (stage.speed_mm_per_s if rate == inf else rate * ramp)
        pieces = [_Piece(begin_s + ramp, start + top * ramp / 2, top)]
        if ramp > 0:
            braking = begin_s + total - ramp
            pieces.insert(0, _Piece(begin_s, start, 0.0, sign * rate))
            pieces.append(_Piece(braking, target_mm - top * ramp / 2, top, -sign * rate))
        self._go_on_with(begin_s, *pieces, _Piece(begin_s + total, target_mm))

    def brake(self, now: float, acceleration: float) -> None:
        """Decelerate to a stand from a moment on."""
        position, speed = self.position_at(now), self.speed_at(now)
        if speed == 0 or acceleration == inf:
            self.put(position, now)
            return
        time = abs(speed) / acceleration
        self._go_on_with(
            now,
            _Piece(now, position, speed, -copysign(acceleration, speed)),
            _Piece(now + time, position + speed * time / 2),
        )

    def put(self, position_mm: float, now: float) -> None:
        """Stand at a position from a moment on, however it got there."""
        self._go_on_with(now, _Piece(now, position_mm))

    def shift(self, by_mm: float, now: float) -> None:
        """Be elsewhere from a moment on, in the midst of a motion: steps are lost."""
        here, rate = self.position_at(now), self._piece_at(now).acceleration
        coming = [
            _Piece(piece.start_s, piece.position_mm + by_mm, piece.speed, piece.acceleration)
            for piece in self._pieces
            if piece.start_s > now
        ]
        self._go_on_with(now, _Piece(now, here + by_mm, self.speed_at(now), rate), *coming)

    def _piece_at(self, now: float) -> _Piece:
        pieces = self._pieces  # another thread may be about to replace them
        index = bisect_right(pieces, now, key=lambda piece: piece.start_s) - 1
        return pieces[max(index, 0)]

    def _go_on_with(self, now: float, *coming: _Piece) -> None:
        """Replace what was to come after a moment, and forget what is long past."""
        past = [piece for piece in self._pieces if piece.start_s <= now]
        while len(past) > 1 and past[1].start_s < now - _KEPT_S:
            past.pop(0)
        self._pieces = [*past, *coming]
