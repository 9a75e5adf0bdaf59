"""Maps that are known in part: a site is measured where the antenna was, and nowhere else.

The measured cells of a map are a path of the antenna through space and time. Two steps make of it
what a policy can be replayed on:

1. In space, along the path: between two successive measurements the antenna crossed the positions
   between them. The reward there, at the time of the crossing, is linear between the two. They may
   be `LONGEST_DISTANCE` apart, and as far in time as in step 2.
2. In time, at each position: the reward between two successive measurements or crossings is linear
   in time. They may be one window w·T_s of the map's own config apart: what is older, the policies
   of this project forget, since the site has changed.

Everything else is unknown, and stays it: nothing is extrapolated, and no number replaces it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from macontrol.config import Config
from macontrol.config.model.grid import ON_GRID
from macontrol.sim.world.rewardmap import Flags, Floats, RewardMap

LONGEST_DISTANCE = 0.125
"""In wavelengths: a quarter of the shortest fringe that waves can make, half a wavelength."""


class Filled(NamedTuple):
    """The slots of a map that a policy is replayed in."""

    world: RewardMap
    """With the rewards between the measured ones; NaN where the reward is unknown."""
    measured: Flags | None
    """Where the reward was measured; None for a map that is known everywhere."""


def fill(world: RewardMap, config: Config, longest_s: float | None = None) -> Filled:
    """Interpolate a map of this config as described above. A complete map stays as it is.

    `longest_s` replaces the window as the longest time between two measurements.
    """
    first, end = world.span or (0, world.slots)
    if world.available is None:
        return Filled(_rows(world, first, end), None)
    longest_s = config.window_s if longest_s is None else longest_s
    time_s: Floats = np.arange(world.slots) * np.float64(config.physical.slot_duration_s)
    if world.unix_s is not None:
        time_s = world.unix_s - world.unix_s[0]
    knots = _knots(world, config.grid.spacing, time_s, longest_s)
    reward = np.full((end - first, world.reward.shape[1]), np.nan)
    for column in range(reward.shape[1]):
        at = slice(*np.searchsorted(knots.column, (column, column + 1)))
        reward[:, column] = _between(
            time_s[first:end], knots.time_s[at], knots.reward[at], longest_s
        )
    measured = world.available[first:end]
    reward[measured] = world.reward[first:end][measured]
    known = ~np.isnan(reward)
    filled = replace(
        _rows(world, first, end), reward=reward, available=None if known.all() else known
    )
    return Filled(filled, measured)


def _rows(world: RewardMap, first: int, end: int) -> RewardMap:
    """Some rows of a map."""
    return replace(
        world,
        reward=world.reward[first:end],
        noise=world.noise[first:end],
        unix_s=None if world.unix_s is None else world.unix_s[first:end],
        span=None,
    )


class _Knots(NamedTuple):
    """Rewards at grid positions at any time, ordered by position, then time."""

    column: NDArray[np.intp]
    time_s: Floats
    reward: Floats


def _knots(world: RewardMap, spacing: float, time_s: Floats, longest_s: float) -> _Knots:
    """The measured rewards, and those at the positions that the antenna crossed."""
    assert world.available is not None
    row, column = np.nonzero(world.available)
    reward, when = world.reward[row, column], time_s[row]
    step, lasted, change = np.diff(column), np.diff(when), np.diff(reward)
    distance = np.abs(step)
    near = (distance * spacing <= LONGEST_DISTANCE + ON_GRID) & (lasted <= longest_s)
    crossed = np.where(near, np.maximum(distance - 1, 0), 0)
    pair = np.repeat(np.arange(len(step)), crossed)
    count = np.arange(len(pair)) - np.repeat(np.cumsum(crossed) - crossed, crossed) + 1
    share = count / distance[pair]
    columns = np.concatenate([column, column[pair] + np.sign(step[pair]) * count])
    times = np.concatenate([when, when[pair] + share * lasted[pair]])
    rewards = np.concatenate([reward, reward[pair] + share * change[pair]])
    order = np.lexsort((times, columns))
    return _Knots(columns[order], times[order], rewards[order])


def _between(time_s: Floats, known_s: Floats, known: Floats, longest_s: float) -> Floats:
    """The rewards at these times; NaN where the nearest known ones are too far apart."""
    found = np.full(len(time_s), np.nan)
    right = np.searchsorted(known_s, time_s, side="right")
    exact = (
        (right > 0) & (known_s[np.maximum(right - 1, 0)] == time_s) if len(known_s) else right > 0
    )
    found[exact] = known[right[exact] - 1]
    inside = np.flatnonzero(~exact & (right > 0) & (right < len(known_s)))
    after = right[inside]
    lasted = known_s[after] - known_s[after - 1]
    near = lasted <= longest_s
    inside, after, lasted = inside[near], after[near], lasted[near]
    share = (time_s[inside] - known_s[after - 1]) / lasted
    found[inside] = known[after - 1] + share * (known[after] - known[after - 1])
    return found


class Basis(NamedTuple):
    """What the observations of a replay rest on, as shares of its slots."""

    measured: float
    interpolated: float
    unknown: float


def basis_of(filled: Filled, config: Config, position: Floats, reward: Floats) -> Basis:
    """What the reward rests on in each slot of a replay: with NaN it is unknown there."""
    unknown = float(np.isnan(reward).mean())
    if filled.measured is None:
        return Basis(1.0 - unknown, 0.0, unknown)
    column = np.clip(np.rint(position / config.grid.spacing), 0, config.grid_size - 1).astype(int)
    on_grid = np.abs(position - config.grid.points[column]) <= ON_GRID
    measured = on_grid & filled.measured[np.arange(len(position)), column]
    share = float(measured.mean())
    return Basis(share, 1.0 - share - unknown, unknown)
