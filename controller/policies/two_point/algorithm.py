"""Zeroth-order ascent with two points: the slope of the reward from two measurements.

Around a centre c, the reward is measured at c + h and at c − h. The slope between them moves the
centre: c ← c + α·(r₊ − r₋)/(x₊ − x₋), by a stroke at most. The first point of the next pair is the
one that is nearer to the antenna. The survey's best position is the first point of all. The climber
has no memory beside its centre, and knows nothing of the rest of the rail.
"""

from __future__ import annotations

from math import nan

from macontrol.config.model.grid import Grid, are_apart
from macontrol.controller.policies.policy import Decision

_AT_POINT = 0.5
"""A reward counts for a point if it was measured within this share of h, as a stage has steps."""


class TwoPointClimber:
    """Measure at two points, and step uphill."""

    def __init__(
        self,
        grid: Grid,
        *,
        rho_max: float,
        half_distance: float,
        gain: float,
        rewards_per_point: int,
        start_position: float,
        first_point: float,
    ) -> None:
        self.start_position = start_position
        self._grid = grid
        self._rho_max = rho_max
        self._half = min(half_distance, grid.length / 2)
        self._gain = gain
        self._needed = rewards_per_point
        self._target = start_position
        self._centre, self._side = self._pair_at(first_point)
        self._first: tuple[float, float] | None = None
        """Mean position and reward of the first point of the pair."""
        self._rewards: dict[int, tuple[float, float]] = {}
        """Position and reward of the slots at the present point."""

    def resume(self, target: float) -> None:
        """Climb from the target of an earlier run, which becomes the point to measure at."""
        self._target = target
        self._centre, self._side = self._pair_at(target)
        self._first = None
        self._rewards.clear()

    def observe(self, slot: int, position: float, reward: float) -> None:
        if abs(position - self._point) <= _AT_POINT * self._half:
            self._rewards.setdefault(slot, (position, reward))

    def withdraw(self, slot: int) -> None:
        self._rewards.pop(slot, None)

    def decide(self, slot: int, position: float) -> Decision:
        if len(self._rewards) >= self._needed:
            self._finish_point(position)
        target = self._point
        step = self._grid.advance(position, target, self._rho_max)
        switched, self._target = are_apart(target, self._target), target
        return Decision(target, step, switched, are_apart(target, step), nan)

    @property
    def _point(self) -> float:
        """The point to measure at."""
        return self._grid.clamp(self._centre + self._side * self._half)

    def _finish_point(self, position: float) -> None:
        """Go to the other point, or with both of them move the centre."""
        count = len(self._rewards)
        at, reward = (sum(column) / count for column in zip(*self._rewards.values(), strict=True))
        self._rewards.clear()
        if self._first is None:
            self._first = at, reward
            self._side = -self._side
            return
        before, earlier = self._first
        self._first = None
        if are_apart(at, before):
            step = self._gain * (reward - earlier) / (at - before)
            step = min(max(step, -self._rho_max), self._rho_max)
            self._centre = self._within(self._centre + step)
        self._side = 1.0 if position > self._centre else -1.0

    def _pair_at(self, point: float) -> tuple[float, float]:
        """The centre of a pair with this point, and the side of the point."""
        side = 1.0 if point >= 2 * self._half else -1.0
        return self._within(point - side * self._half), side

    def _within(self, centre: float) -> float:
        """The nearest centre with both points on the rail."""
        return min(max(centre, self._half), self._grid.length - self._half)
