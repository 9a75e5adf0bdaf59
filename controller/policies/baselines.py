"""The paper's baselines besides GP-UCB: ε-greedy, Sweep-and-hold and the fixed antenna."""

from __future__ import annotations

from math import inf, nan
from operator import itemgetter

import numpy as np

from macontrol.config.model.grid import ON_GRID, Grid, are_apart
from macontrol.controller.policies.moveucb import Posterior
from macontrol.controller.policies.policy import Decision


class EpsilonGreedy:
    """Within reach: the best mean, or with probability ε any position, all equally likely."""

    def __init__(
        self,
        posterior: Posterior,
        *,
        rho_max: float,
        epsilon: float,
        start_position: float,
        rng: np.random.Generator,
    ) -> None:
        self.posterior = posterior
        self.start_position = start_position
        self._grid = posterior.grid
        self._rho_max = rho_max
        self._epsilon = epsilon
        self._rng = rng
        self._target = self._grid.nearest(start_position)

    def resume(self, target: float) -> None:
        self._target = self._grid.nearest(target)

    def observe(self, slot: int, position: float, reward: float) -> None:
        self.posterior.observe(slot, position, reward)

    def withdraw(self, slot: int) -> None:
        self.posterior.withdraw(slot)

    def decide(self, slot: int, position: float) -> Decision:
        reach = self._grid.in_reach(position, self._rho_max)
        if self._rng.random() < self._epsilon:
            chosen = int(self._rng.integers(reach.start, reach.stop))
        else:
            chosen = reach.start + int(self.posterior.mean[reach].argmax())
        switched, self._target = chosen != self._target, chosen
        target = float(self._grid.points[chosen])
        return Decision(target, target, switched, False, nan)


class SweepAndHold:
    """Hold the best position of the last sweep; sweep again at the start of every period.

    The first period goes to the survey's best position and holds it. A sweep runs ⌈D/ρ_max⌉ slots
    at full stroke from where the antenna stands, in the direction the last one ended in, reflecting
    at the ends of the rail.
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
        """`hold` is what the first period holds: where it starts, if it is not given."""
        self.start_position = start_position
        self._grid = grid
        self._rho_max = rho_max
        self._period = period
        self._sweep_slots = sweep_slots
        self._hold = start_position if hold is None else hold
        self._before = self._hold
        """Where it held before the latest sweep."""
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
        """Whether a slot is one of a sweep: the first ones of each period but the first."""
        return slot > self._period and (slot - 1) % self._period < self._sweep_slots

    def _swept(self, position: float) -> float:
        """One full stroke on, turning round at the ends of the rail."""
        step = position + self._direction * self._rho_max
        if step > self._grid.length + ON_GRID:
            self._direction, step = -1.0, 2 * self._grid.length - step
        elif step < -ON_GRID:
            self._direction, step = 1.0, -step
        return self._grid.snap(min(max(step, 0.0), self._grid.length))


class Fixed:
    """A conventional antenna: it stays where it starts."""

    def __init__(self, start_position: float) -> None:
        self.start_position = start_position

    def resume(self, target: float) -> None:
        """A fixed antenna has no target but where it is."""

    def observe(self, slot: int, position: float, reward: float) -> None:
        """A fixed antenna learns nothing."""

    def withdraw(self, slot: int) -> None:
        """A fixed antenna has nothing to forget."""

    def decide(self, slot: int, position: float) -> Decision:
        return Decision(position, position, False, False, nan)
