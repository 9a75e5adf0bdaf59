"""The oracle of a run that is still running: the best trajectory for the slots so far.

Forward dynamic programming on the grid. With n the reach in grid steps and V_t(x) the largest sum
of rewards less travel over slots 1 … t of a trajectory that ends at x,

    V_t(x) = g_t(x) + max over |d| <= n of (V_{t−1}(x + d) − c_e |d|),   OPT_t = max V_t.

(With actuation as needed, g_t is multiplied by w(d), what the move leaves of it: `oracle.py`.)

So one more slot is one step more, while the backward form of `oracle.py` begins again. Memory does
not grow with the run: the trajectory is kept by stretches of slots, the last ones only. Each
stretch has, for each point x, where the best trajectory to x was at the end of the stretch before,
and what it earned within this one.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from macontrol.config import Config
from macontrol.config.model.grid import ON_GRID

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True)
class SoFar:
    """The best trajectory for slots 1 … `slot`; the lists are its last stretches, oldest first."""

    slot: int
    value: float
    """OPT_t: its rewards less the price of its travel."""
    earned: float
    """The sum of its rewards."""
    ends: list[int]
    """The last slot of each stretch, …"""
    position: list[float]
    """… where it is in that slot (wavelengths), …"""
    reward: list[float]
    """… and its mean reward within the stretch."""


class OracleSoFar:
    """The oracle of one realization, slot by slot.

    `blocks` are its rewards g_t over the grid, a row per slot, such as those of `reward_blocks`.
    """

    def __init__(
        self, config: Config, blocks: Iterator[Floats], *, stretch_slots: int, stretches: int
    ) -> None:
        self._config = config
        self._blocks = blocks
        self._block = np.empty((0, config.grid_size))
        self._row = 0
        self._stretch_slots = stretch_slots
        self._stretches: deque[tuple[int, NDArray[np.int32], Floats]] = deque(maxlen=stretches)
        self.slot = 0
        points = config.grid_size
        self._step = _Step(config)
        self._value = np.zeros(points)
        self._level = 0.0
        self._earned = np.zeros(points)
        """Of the best trajectory to each point: its rewards, …"""
        self._earned_here: Floats = np.zeros(points)
        """… those of this stretch, …"""
        self._origin: Indices = np.arange(points)
        """… and where it was at the end of the stretch before."""

    def advance(self, slot: int, limit_s: float = math.inf) -> None:
        """Go to a slot, or as far as the time allows."""
        ends_s = time.monotonic() + limit_s
        while self.slot < slot and time.monotonic() < ends_s:
            self._take(self._next_rewards())

    def best(self) -> SoFar:
        """The best trajectory for the slots so far."""
        at = end = int(self._value.argmax())
        begun = self.slot - self.slot % self._stretch_slots
        found: list[tuple[int, int, float]] = []
        if self.slot > begun:
            mean = float(self._earned_here[at]) / (self.slot - begun)
            found.append((self.slot, at, mean))
            at = int(self._origin[at])
        for last, origin, earned in reversed(self._stretches):
            found.append((last, at, float(earned[at]) / self._stretch_slots))
            at = int(origin[at])
        found.reverse()
        return SoFar(
            slot=self.slot,
            value=self._level + float(self._value[end]),
            earned=float(self._earned[end]),
            ends=[last for last, _, _ in found],
            position=[float(self._config.grid.points[index]) for _, index, _ in found],
            reward=[reward for _, _, reward in found],
        )

    def _next_rewards(self) -> Floats:
        if self._row == len(self._block):
            self._block, self._row = next(self._blocks), 0
        self._row += 1
        return np.asarray(self._block[self._row - 1])

    def _take(self, reward: Floats) -> None:
        """One step of the recursion."""
        if self.slot == 0:
            earned = reward * self._step.first_weight
            self._value = earned - self._step.first_price
            self._earned, self._earned_here = earned, earned.copy()
        else:
            before = self._step.best_before(self._value, reward)
            earned = reward * self._step.weight[np.abs(before - np.arange(len(before)))]
            self._value = self._step.value + reward
            self._earned = self._earned[before] + earned
            self._earned_here = self._earned_here[before] + earned
            self._origin = self._origin[before]
        self.slot += 1
        if self.slot % self._stretch_slots == 0:
            self._stretches.append((self.slot, self._origin.astype(np.int32), self._earned_here))
            self._earned_here = np.zeros(len(reward))
            self._origin = np.arange(len(reward))
            level = float(self._value.max())  # values near zero keep their last digits
            self._value -= level
            self._level += level


class _Step:
    """The best point of the slot before, for every point, and the value it gives.

    The two directions of travel are separate sliding maxima, built by doubling their width, as in
    `oracle.py`; here each maximum carries the point where it is.
    """

    def __init__(self, config: Config) -> None:
        grid, cost = config.grid, config.reward.movement_cost
        points = grid.size
        spacing, stroke = config.algorithm.grid_spacing, config.physical.rho_max
        distance = np.abs(grid.points - config.physical.x_0)
        within = distance <= stroke + ON_GRID * spacing
        self.first_price: Floats = np.where(within, cost * distance, np.inf)
        """The price of x_1 from x_0; infinite out of reach."""
        self.value: Floats = np.empty(points)
        reach = min(points - 1, math.floor(stroke / spacing + ON_GRID))
        plan = config.physical.actuation_plan
        self.first_weight: Floats = plan.weights(distance)
        """w(|x_1 − x_0|)."""
        self.weight: Floats = plan.weights(spacing * np.arange(reach + 1.0))
        """w(d), by the distance in grid steps."""
        self._loses = bool((self.weight < 1.0).any())
        self._step_price = cost * spacing
        self._price = np.multiply.outer((-cost, cost), grid.points)
        # To the right a window begins at x, to the left it ends at x. With the padding on opposite
        # sides both are windows that begin at x.
        self._padded = np.full((2, points + reach), -np.inf)
        self._sides = self._padded[0, :points], self._padded[1, reach:]
        self._where = np.zeros((2, points + reach), np.intp)
        self._where[0, :points] = self._where[1, reach:] = np.arange(points)
        self._shifts = []
        covered = 1
        while covered < reach + 1:
            self._shifts.append(min(covered, reach + 1 - covered))
            covered += self._shifts[-1]

    def best_before(self, value: Floats, reward: Floats) -> Indices:
        """Where the best trajectory to each point was in the slot before; sets `value`.

        That is the sum before this slot, less what the move into the slot costs.
        """
        if self._loses:
            return self._best_move(value, reward)
        for side, price in zip(self._sides, self._price, strict=True):
            np.add(value, price, out=side)
        best, where = self._padded, self._where
        for shift in self._shifts:
            near, far = best[:, :-shift], best[:, shift:]
            where = np.where(far > near, where[:, shift:], where[:, :-shift])
            best = np.maximum(near, far)
        net = best - self._price
        self.value = np.maximum(net[0], net[1])
        return np.asarray(np.where(net[1] > net[0], where[1], where[0]))

    def _best_move(self, value: Floats, reward: Floats) -> Indices:
        """`best_before`, if a move leaves only a part of the slot's reward."""
        best, where = value.copy(), np.arange(len(value))
        for steps in range(1, len(self.weight)):
            lost = (1.0 - self.weight[steps]) * reward + steps * self._step_price
            for here, there in (
                (slice(-steps), slice(steps, None)),
                (slice(steps, None), slice(-steps)),
            ):
                net = value[there] - lost[here]
                is_better = net > best[here]
                best[here] = np.where(is_better, net, best[here])
                where[here] = np.where(is_better, np.arange(len(value))[there], where[here])
        self.value = best
        return where
