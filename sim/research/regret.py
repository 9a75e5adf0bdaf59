"""The regret of a live run on the simulated bench: what the oracle would have made of its slots."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from macontrol.config import Config
from macontrol.sim.research.oracle import oracle_value
from macontrol.sim.world.channel import reward_rows

MAX_REGRET_SLOTS = 100_000
"""The oracle needs the whole map in memory: half a gigabyte for this many slots of 601 points."""


def regret_of_run(
    config: Config, seed: int, slots: Sequence[int], positions: Sequence[float]
) -> float:
    """Regret per slot over slots 1 … T (eq. regret), given where the antenna was in each slot run.

    In slots that were missed the antenna held its position. Run and oracle are both charged for
    the way from x_0.
    """
    last = slots[-1]
    reward = reward_rows(config, seed, last)
    index = np.searchsorted(np.asarray(slots), np.arange(1, last + 1), side="right") - 1
    position = np.asarray(positions)[np.maximum(index, 0)]
    grid = config.grid
    on_grid = np.clip(position, 0.0, grid.length) / grid.spacing  # a lost stage may be off it
    low = np.minimum(on_grid.astype(np.intp), config.grid_size - 2)
    part = on_grid - low
    rows = np.arange(last)
    earned = (1 - part) * reward[rows, low] + part * reward[rows, low + 1]
    travel = float(np.abs(np.diff(position, prepend=config.physical.x_0)).sum())
    net = float(earned.sum()) - config.reward.movement_cost * travel
    return (float(oracle_value(reward, config)[0]) - net) / last
