"""The regret of a live run on the simulated bench, compared with the oracle."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from macontrol.config import Config
from macontrol.sim.research.oracle import oracle_value
from macontrol.sim.world.channel import reward_rows

MAX_REGRET_SLOTS = 100_000
"""The oracle needs the whole map in memory: half a gigabyte for this number of slots."""


def regret_of_run(
    config: Config, seed: int, slots: Sequence[int], positions: Sequence[float]
) -> float:
    """Regret per slot over slots 1 … T (eq. regret), from the position in each slot that was run.

    In missed slots the antenna stayed at its position. Both the run and the oracle pay for the
    travel from x_0.
    """
    last = slots[-1]
    reward = reward_rows(config, seed, last)
    index = np.searchsorted(np.asarray(slots), np.arange(1, last + 1), side="right") - 1
    position = np.asarray(positions)[np.maximum(index, 0)]
    interpolate = config.grid.interpolate
    earned = sum(interpolate(row, x) for row, x in zip(reward, position.tolist(), strict=True))
    travel = float(np.abs(np.diff(position, prepend=config.physical.x_0)).sum())
    net = earned - config.reward.movement_cost * travel
    return (float(oracle_value(reward, config)[0]) - net) / last
