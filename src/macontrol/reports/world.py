"""What would have been elsewhere on the rail: known for a run on the simulated bench only.

Its world is computed again from config and seed, slot by slot, and compared with the recorded
rewards: another version of macontrol may simulate another world.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macontrol.config import Config
from macontrol.sim.research.oracle import MAX_REGRET_SLOTS, oracle_path
from macontrol.sim.world.channel import Channel, reward_rows

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

MOST_SLOTS = 1_000_000
"""Slots of a world that is computed again: 10 µs each."""
HOW_KNOWN = "the simulated world, computed again from config and seed"
SIMULATED = "sim"
WORLD_COLUMNS = ("slot", "position", "reward", "transmission_share")
"""The columns of a run file that `world_of` needs."""
_TOLERANCE = 1e-6  # of g_max
_OTHER_WORLD = 0.02
"""The share of recorded rewards that differ in another world; injected faults change some."""


@dataclass(frozen=True, eq=False)
class World:
    """The rewards without noise of the recorded slots: of the antenna, and of a fixed one."""

    earned: Floats
    """g_t(x_t), one value per recorded slot."""
    fixed: Floats
    """g_t(x_0), one value per recorded slot: this antenna holds in every slot."""
    fixed_position: float
    measured: NDArray[np.bool_]
    """The slots that have a reward: the figures are means over them."""

    @property
    def mean_earned(self) -> float:
        return float(self.earned[self.measured].mean())

    @property
    def mean_fixed(self) -> float:
        return float(self.fixed[self.measured].mean())

    @property
    def gain(self) -> float | None:
        """How much more the antenna earned than a fixed one at x_0, as a share."""
        return self.mean_earned / self.mean_fixed - 1.0 if self.mean_fixed > 0 else None


def world_of(
    config: Config,
    backend: str,
    seed: int,
    columns: Mapping[str, NDArray[Any]],
    most_slots: int = MOST_SLOTS,
) -> World | str:
    """Compute the world of a run again from WORLD_COLUMNS; the reason if that is not possible."""
    if backend != SIMULATED:
        return "on hardware, the reward is known only where the antenna was"
    slot: Counts = columns["slot"]
    position, reward, share = (columns[name] for name in WORLD_COLUMNS[1:])
    measured = np.isfinite(reward) & np.isfinite(position)
    if not measured.any():
        return "no slot has a reward"
    if slot[0] < 1 or slot[-1] > most_slots:
        return f"the world is computed again for runs of at most {most_slots} slots"
    channel, x_0 = Channel(config, seed), config.physical.x_0
    earned, fixed, noise = np.full((3, len(slot)), np.nan)
    at = np.clip(np.nan_to_num(position), 0.0, config.physical.region_length).tolist()
    for row, (number, x) in enumerate(zip(slot.tolist(), at, strict=True)):
        channel.advance(number - channel.slot)
        earned[row], fixed[row] = channel.reward(x), channel.reward(x_0)
        noise[row] = channel.noise
    weight = config.physical.actuation_plan.recorded(share)
    off = np.abs((earned + noise) * weight - reward)[measured] > _TOLERANCE * config.g_max
    if off.mean() > _OTHER_WORLD:
        return (
            f"{int(off.sum())} of {len(off)} recorded rewards differ from the world that this "
            "version simulates"
        )
    return World(earned * weight, fixed, x_0, measured)


def sampled_map(config: Config, seed: int, slots: Counts, positions: Floats) -> Floats:
    """The rewards without noise at these slots (rows, ascending) and positions (columns)."""
    channel = Channel(config, seed)
    rows = np.empty((len(slots), len(positions)))
    for row, number in enumerate(slots.tolist()):
        channel.advance(number - channel.slot)
        rows[row] = channel.rewards(positions)
    return rows


@dataclass(frozen=True, eq=False)
class OracleTrace:
    """The best trajectory with all rewards known in advance, over slots 1 to T."""

    position: Floats
    reward: Floats
    net_per_slot: float
    """Its mean reward less the price of travel."""


def oracle_of(config: Config, seed: int, first_slot: int, last_slot: int) -> OracleTrace | str:
    """Compute the oracle of a run's world; the reason if that is not possible."""
    if first_slot != 1:
        return "the oracle is computed for runs that begin at slot 1"
    if last_slot > MAX_REGRET_SLOTS:
        return f"the oracle is computed for runs of at most {MAX_REGRET_SLOTS} slots"
    rewards = reward_rows(config, seed, last_slot)
    path = oracle_path(rewards, config)
    return OracleTrace(path.position, path.reward, path.value / last_slot)
