"""The oracle, the best trajectory with all rewards known in advance (eq. oracle), and the regret.

Exact backward dynamic programming on the grid. With n the reach in grid steps and U_t the largest
sum of rewards from slot t on,

    U_t(x) = g_t(x) + max over |d| <= n of (U_{t+1}(x + d) − c_e |d|).

The maximum is taken separately for the two directions of travel. With the price in the argument,
U(x) − c_e x to the right and U(x) + c_e x to the left, each is a sliding maximum, which is built
by doubling its width.

With actuation as needed, a move by d into slot t leaves only the part w(d) of g_t. U_t is then the
sum if the antenna holds in slot t, and a move into it loses (1 − w(d)) g_t(x) more than c_e |d|:

    U_t(x) = g_t(x) + max over |d| <= n of (U_{t+1}(x + d) − (1 − w(d)) g_{t+1}(x + d) − c_e |d|).

The loss depends on the place and not only on the distance, so the maximum is taken over each |d|.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from macontrol.config import Config
from macontrol.config.model.grid import ON_GRID
from macontrol.sim.world.channel import reward_rows

Floats = NDArray[np.float64]

MAX_REGRET_SLOTS = 100_000
"""The oracle needs the whole map in memory: half a gigabyte for this number of slots."""
KEPT_BYTES = 2**27
"""Up to this size of the rewards, as many values are kept."""
LEVEL_SLOTS = 64
"""The values are shifted towards zero once per this many slots, to keep their last digits."""


@dataclass(frozen=True)
class OraclePath:
    """The oracle's trajectory for slots 1 … T, and its reward net of the cost of travel."""

    optimum: float
    """OPT_T by the recursion: the same number as that of `oracle_value`."""
    index: NDArray[np.intp]
    position: Floats
    reward: Floats
    """The reward of each slot, without noise."""
    value: float


def oracle_value(
    reward: Floats, config: Config, movement_costs: Sequence[float] | None = None
) -> Floats:
    """OPT_T for each movement cost c_e; without any, for that of the config.

    `reward` is g_t over the grid, one row per slot.
    """
    costs = _costs(config, movement_costs)
    recursion = _Recursion(reward, config, costs)
    value = reward[-1] + np.zeros((len(costs), 1))
    for _ in recursion.backward(value, len(reward) - 1, 0):
        pass
    first = value - _first_move(config, costs, reward[0])
    return np.asarray(first.max(axis=1) + recursion.level())


def oracle_path(reward: Floats, config: Config, movement_cost: float | None = None) -> OraclePath:
    """A trajectory that attains OPT_T; of equal choices the one at the lowest position.

    Of a long run, blocks of √T slots are computed, and all but the first are computed again on the
    way back. This needs little memory compared with the rewards.
    """
    costs = _costs(config, None if movement_cost is None else [movement_cost])
    recursion = _Recursion(reward, config, costs)
    slots, points = reward.shape
    block = slots if reward.nbytes <= KEPT_BYTES else math.isqrt(slots)
    value = reward[-1] + np.zeros((1, 1))
    kept: list[tuple[int, int, Floats]] = []
    rows, end = value, slots
    for begin in reversed(range(0, slots, block)):
        kept.append((begin, end, value.copy()))
        rows = recursion.rows(value, begin, end)
        for _ in recursion.backward(value, begin, max(begin - 1, 0)):
            pass
        end = begin
    first = value - _first_move(config, costs, reward[0])
    optimum = float(first.max() + recursion.level()[0])

    position, reach = config.grid.points, recursion.reach
    index = np.empty(slots, dtype=np.intp)
    index[0] = at = int(np.argmax(first))
    steps = np.abs(np.arange(-reach, reach + 1))
    price = float(costs[0]) * config.algorithm.grid_spacing * steps
    lost = recursion.lost[steps]
    for begin, end, value in reversed(kept):
        if begin > 0:
            rows = recursion.rows(value, begin, end)
        for slot in range(max(begin, 1), end):
            low, high = max(0, at - reach), min(points, at + reach + 1)
            within = slice(low - at + reach, high - at + reach)
            ahead = rows[slot - begin, low:high] - price[within]
            ahead -= lost[within] * reward[slot, low:high]
            at = low + int(ahead.argmax())
            index[slot] = at
    travelled = np.abs(np.diff(position[index], prepend=config.physical.x_0))
    earned = reward[np.arange(slots), index] * config.physical.actuation_plan.weights(travelled)
    value_sum = math.fsum(earned.tolist()) - float(costs[0]) * math.fsum(travelled.tolist())
    return OraclePath(optimum, index, position[index], earned, value_sum)


def regret_of_run(
    config: Config, seed: int, slots: Sequence[int], positions: Sequence[float]
) -> float:
    """Regret per slot over slots 1 … T (eq. regret), from the position in each slot that was run.

    In missed slots the antenna stayed at its position. Both the run and the oracle pay for the
    travel from x_0, and spend the planned time on each move.
    """
    last = slots[-1]
    reward = reward_rows(config, seed, last)
    index = np.searchsorted(np.asarray(slots), np.arange(1, last + 1), side="right") - 1
    position = np.asarray(positions)[np.maximum(index, 0)]
    interpolate = config.grid.interpolate
    steps = np.abs(np.diff(position, prepend=config.physical.x_0))
    weights = config.physical.actuation_plan.weights(steps)
    earned: float = sum(
        interpolate(row, x) * weight
        for row, x, weight in zip(reward, position.tolist(), weights.tolist(), strict=True)
    )
    net = earned - config.reward.movement_cost * float(steps.sum())
    return (float(oracle_value(reward, config)[0]) - net) / last


class _Recursion:
    """The backward steps, for several movement costs at once, in place."""

    def __init__(self, reward: Floats, config: Config, costs: Floats) -> None:
        if reward.ndim != 2 or len(reward) == 0 or reward.shape[1] != config.grid_size:
            raise ValueError(
                f"rewards of shape {reward.shape} do not fit a grid of {config.grid_size} positions"
            )
        points = config.grid_size
        self._reward = reward
        self._levels: list[Floats] = []
        self.reach = min(
            points - 1,
            math.floor(config.physical.rho_max / config.algorithm.grid_spacing + ON_GRID),
        )
        plan, spacing = config.physical.actuation_plan, config.algorithm.grid_spacing
        self.lost: Floats = 1.0 - plan.weights(spacing * np.arange(self.reach + 1.0))
        """1 − w(d), by the distance in grid steps."""
        self._loses = bool(self.lost.any())
        self._step_price = costs[:, np.newaxis] * spacing
        self._price = np.multiply.outer((-costs, costs), config.grid.points)
        # To the right a window of reach + 1 points begins at x, to the left it ends at x. With the
        # padding on opposite sides both are windows that begin at x.
        width = points + self.reach
        self._padded = np.full((2, len(costs), width), -np.inf)
        self._to_right = self._padded[0, :, :points]
        self._to_left = self._padded[1, :, self.reach :]
        self._doublings: list[tuple[Floats, Floats, Floats]] = []
        source, covered = self._padded, 1
        while covered < self.reach + 1:
            shift = min(covered, self.reach + 1 - covered)
            target = np.empty((2, len(costs), source.shape[2] - shift))
            self._doublings.append((source[:, :, :-shift], source[:, :, shift:], target))
            source, covered = target, covered + shift
        self._windowed = source

    def backward(self, value: Floats, slot: int, stop: int) -> Iterator[int]:
        """Turn the values of row `slot` into those of each row before it, down to row `stop`."""
        reward, doublings, windowed = self._reward, self._doublings, self._windowed
        right_price, left_price = self._price
        while slot > stop:
            slot -= 1
            if self._loses:
                self._best_move(value, reward[slot + 1])
            else:
                np.add(value, right_price, out=self._to_right)
                np.add(value, left_price, out=self._to_left)
                for near, far, target in doublings:
                    np.maximum(near, far, out=target)
                # With reach 0 the window is the padded array itself, which is written again above.
                windowed -= self._price
                np.maximum(windowed[0], windowed[1], out=value)
            value += reward[slot]
            if slot % LEVEL_SLOTS == 0:
                level = value.max(axis=1, keepdims=True)
                value -= level
                self._levels.append(level[:, 0])
            yield slot

    def _best_move(self, value: Floats, reward: Floats) -> None:
        """Turn the values of a slot into the best over all moves into it; `reward` is its g_t."""
        ahead = value.copy()
        for steps in range(1, self.reach + 1):
            moved = ahead - self.lost[steps] * reward
            moved -= steps * self._step_price
            np.maximum(value[:, :-steps], moved[:, steps:], out=value[:, :-steps])
            np.maximum(value[:, steps:], moved[:, :-steps], out=value[:, steps:])

    def rows(self, value: Floats, begin: int, end: int) -> Floats:
        """The values of rows `begin` … `end` − 1, for one movement cost.

        `value` is that of the last row, and becomes that of the first.
        """
        rows = np.empty((end - begin, value.shape[1]))
        rows[-1] = value
        for slot in self.backward(value, end - 1, begin):
            rows[slot - begin] = value
        return rows

    def level(self) -> Floats:
        """The sum of all shifts of the values so far, for each movement cost."""
        return np.array([math.fsum(taken) for taken in zip(*self._levels, strict=True)] or [0.0])


def _costs(config: Config, movement_costs: Sequence[float] | None) -> Floats:
    costs = [config.reward.movement_cost] if movement_costs is None else movement_costs
    return np.array(costs, dtype=np.float64)


def _first_move(config: Config, costs: Floats, reward: Floats) -> Floats:
    """The price of x_1 from x_0 for each cost and grid point; infinite out of reach.

    `reward` is g_1, of which the move leaves a part.
    """
    distance: Floats = np.abs(config.grid.points - config.physical.x_0)
    tolerance = ON_GRID * config.algorithm.grid_spacing
    out_of_reach = np.where(distance <= config.physical.rho_max + tolerance, 0.0, np.inf)
    lost = (1.0 - config.physical.actuation_plan.weights(distance)) * reward
    return np.multiply.outer(costs, distance) + out_of_reach + lost
