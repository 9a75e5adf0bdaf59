"""Reward maps: simulate, make, load and save a world that policies are replayed on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from macontrol.config import Config, load_config
from macontrol.config.model.errors import DataError
from macontrol.interface.arguments import seed_of, slots_of
from macontrol.sim.world import rewardmap
from macontrol.sim.world.rewardmap import Flags, Floats, RewardMap
from macontrol.sim.world.worlds import PAPER, World

_ARRAYS = tuple(field.name for field in fields(RewardMap))


@dataclass(frozen=True, eq=False)
class Map:
    """The reward everywhere on the rail in every slot, and the config that it belongs to.

    Make one with `simulate_map`, `make_map` or `load_map`.
    """

    config: Config
    reward: Floats
    """g_t(x) of a holding antenna, without noise (bit/s/Hz): rows are slots, columns positions."""
    noise: Floats
    """The noise of the observation in each slot (bit/s/Hz)."""
    survey_position: Floats
    """The positions of the survey before slot 1 (wavelengths)."""
    survey_reward: Floats
    """The rewards of the survey, with noise (bit/s/Hz)."""
    seed: int | None = None
    """The seed of a simulated map."""
    origin: Mapping[str, Any] | None = None
    """What made a map: world, speed, seed, versions, V_T/T; of a site, what measured it."""
    available: Flags | None = None
    """Where the reward was measured, as `reward`; None if it is known everywhere.

    Elsewhere `reward` is NaN. `replay` interpolates.
    """
    unix_s: Floats | None = None
    """When each slot began (seconds of UTC since 1970); None for a world without a date."""
    span: tuple[int, int] | None = None
    """The first slot that is replayed (counted from 0), and the end; None: all."""

    @property
    def slots(self) -> int:
        """The number of slots, with those that only serve the interpolation."""
        return len(self.noise)

    @property
    def positions(self) -> Floats:
        """The positions of the columns of `reward` (wavelengths)."""
        return self.config.grid.points

    def save(self, path: Path | str) -> None:
        """Write the map with its config as an npz archive, which `macontrol replay` takes."""
        self._world.save(path, seed=self.seed, config=self.config, origin=self.origin)

    @property
    def _world(self) -> RewardMap:
        return RewardMap(**{name: getattr(self, name) for name in _ARRAYS})


def simulate_map(
    config: Config | None = None,
    *,
    seed: int | None = None,
    slots: int | None = None,
    world: str = PAPER,
    speed: float | None = None,
) -> Map:
    """Simulate the channel of a config (default: the preset `paper`). One seed is one world.

    Without `seed` and `slots`, the config's `run.seed` and `run.horizon` are used. `world` is the
    channel model, `paper` or `ieee-a` … `ieee-f`, and `speed` how fast it changes, as in
    `macontrol simulate-map --help`.
    """
    config = config or load_config()
    seed, slots = seed_of(config, seed), slots_of(config, slots)
    chosen = World.named(world, speed)
    config = chosen.config_of(config)
    found = chosen.simulate(config, seed, slots)
    return replace(_with_config(config, found, seed), origin=chosen.origin(seed, found))


def make_map(
    reward: ArrayLike,
    *,
    config: Config | None = None,
    noise: ArrayLike | None = None,
    survey_position: ArrayLike | None = None,
    survey_reward: ArrayLike | None = None,
    available: ArrayLike | None = None,
    unix_s: ArrayLike | None = None,
) -> Map:
    """Make a map from rewards of your own: one row per slot, one column per grid position.

    Without `noise` the policy observes the reward itself. Without a survey, the survey has the
    rewards of the first slot. `available` says where the reward is known (default: everywhere); a
    map that is known in part needs a survey. `unix_s` is when each slot began.
    """
    config = config or load_config()
    if survey_position is None:
        survey_position = config.survey_positions
    try:
        rows = np.asarray(reward)
        if survey_reward is None:
            if available is not None:
                raise DataError(
                    "make_map: a map that is known in part has no survey",
                    "give survey_position and survey_reward",
                )
            survey_reward = np.zeros(np.shape(survey_position))
            if rows.shape[1:] == (config.grid_size,) and len(rows):  # else it is refused below
                survey_reward = np.interp(np.asarray(survey_position), config.grid.points, rows[0])
        arrays = {
            "reward": rows,
            "noise": np.zeros(rows.shape[:1]) if noise is None else np.asarray(noise),
            "survey_position": np.asarray(survey_position),
            "survey_reward": np.asarray(survey_reward),
        }
        if available is not None:
            arrays["available"] = np.asarray(available)
        if unix_s is not None:
            arrays["unix_s"] = np.asarray(unix_s)
    except (TypeError, ValueError) as error:  # as numpy says it: rows of unequal length, words
        raise DataError(f"make_map: {error}", "give arrays of numbers") from error
    return _with_config(config, rewardmap.map_of("make_map", arrays, config))


def load_map(path: Path | str, config: Config | None = None) -> Map:
    """Read a map. Its own config is used unless one is given."""
    config = config or rewardmap.map_config(path)
    if config is None:
        rewardmap.check_map(path)
        raise DataError(f"{path}: the map contains no config", "give the config that it fits")
    found = _with_config(config, rewardmap.load_map(path, config), rewardmap.map_seed(path))
    return replace(found, origin=rewardmap.map_origin(path))


def recorded_map(path: Path | str, *, slots: int | None = None) -> Map:
    """Make the map of a run file or of a survey file, as `macontrol export --format map` does.

    The map of a real site is known where it was measured. `slots` limits it to its beginning.
    """
    from macontrol.exported_map import recorded_map as read

    found = read(path, slots)
    return replace(_with_config(found.config, found.world, found.seed), origin=found.origin)


def _with_config(config: Config, found: RewardMap, seed: int | None = None) -> Map:
    return Map(config, seed=seed, **{name: getattr(found, name) for name in _ARRAYS})
