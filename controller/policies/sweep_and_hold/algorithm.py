"""Sweep-and-hold: sweep the whole rail once per period, and hold the best position between."""

from __future__ import annotations

from math import inf, nan
from operator import itemgetter

from macontrol.config.model.grid import ON_GRID, Grid, are_apart
from macontrol.controller.policies.policy import Decision


class SweepAndHold:
    """Hold the best position of the last sweep; sweep again at the start of every period.

    The first period goes to the survey's best position and holds it. A sweep takes ⌈D/ρ_max⌉ slots
    at full stroke from the antenna's position, in the direction in which the last one ended, and
    turns round at the ends of the rail.
    """

    def __init__(
        self,
        grid: Grid,
        *,
        rho_max: float,
        period: int,
        sweep_slots: int,
        start_position: float,
        hold: float | None = None,
    ) -> None:
        """`hold` is the position of the first period; the start position if it is not given."""
        self.start_position = start_position
        self._grid = grid
        self._rho_max = rho_max
        self._period = period
        self._sweep_slots = sweep_slots
        self._hold = start_position if hold is None else hold
        self._before = self._hold
        """The position that was held before the latest sweep."""
        self._sweep: dict[int, tuple[float, float]] = {}
        """The reward and the position of each slot of the latest sweep."""
        self._best_reward = -inf
        self._target = start_position
        self._direction = 1.0

    def resume(self, target: float) -> None:
        self._hold = self._before = self._target = target

    def observe(self, slot: int, position: float, reward: float) -> None:
        if self._is_sweep(slot):
            self._sweep[slot] = reward, position
            if reward > self._best_reward:
                self._best_reward, self._hold = reward, position

    def withdraw(self, slot: int) -> None:
        if self._sweep.pop(slot, None) is not None:
            nothing = -inf, self._before
            best = max(self._sweep.values(), key=itemgetter(0), default=nothing)
            self._best_reward, self._hold = best

    def decide(self, slot: int, position: float) -> Decision:
        if self._is_sweep(slot + 1):
            if not self._is_sweep(slot):
                self._best_reward, self._before = -inf, self._hold
                self._sweep.clear()
            target = self._swept(position)
        else:
            target = self._hold
        step = self._grid.advance(position, target, self._rho_max)
        switched, self._target = are_apart(target, self._target), target
        return Decision(target, step, switched, are_apart(target, step), nan)

    def _is_sweep(self, slot: int) -> bool:
        """Whether a slot belongs to a sweep: the first slots of each period after the first."""
        return slot > self._period and (slot - 1) % self._period < self._sweep_slots

    def _swept(self, position: float) -> float:
        """One full stroke further, turning round at the ends of the rail."""
        step = position + self._direction * self._rho_max
        if step > self._grid.length + ON_GRID:
            self._direction, step = -1.0, 2 * self._grid.length - step
        elif step < -ON_GRID:
            self._direction, step = 1.0, -step
        return self._grid.snap(self._grid.clamp(step))
