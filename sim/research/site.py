"""The map of a real site, from what was measured there: walks along its rail, or slots of a run.

A measurement is one cell of the map: the slot and the grid position that are nearest to it. All
other cells are unknown. The rewards contain the noise of their measurement. In the slots of a run,
this is the noise of the observation. Between walks the interpolated reward is smooth in time, as no
observation is, so that such a map has noise of its own, of the size that the probe reported.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from macontrol.config import Config
from macontrol.config.model.errors import DataError
from macontrol.controller.survey.samples import Survey
from macontrol.sim.world.rewardmap import Flags, Floats, RewardMap

MAP_LIMIT_BYTES = 2 << 30
"""The largest map that an export makes."""
LEAST_WALKS = 3
"""The rewards of the walks between the first and the last are known at every place."""


def map_of_walks(where: object, config: Config, walks: Sequence[Survey]) -> RewardMap:
    """The map of a repeated survey.

    The first walk is the survey before slot 1. A policy is replayed from its end to the begin of
    the last walk: in this time each place was measured before and after.
    """
    if len(walks) < LEAST_WALKS:
        raise DataError(
            f"{where}: has {len(walks)} walks along the rail, and a map needs {LEAST_WALKS}",
            "`macontrol survey --repeat N` walks it N times",
        )
    samples = [sample for walk in walks for sample in walk.samples]
    unix_s, position, reward = np.array([(s.unix_s, s.position, s.reward) for s in samples]).T
    begun_s, slot_s = float(unix_s.min()), config.physical.slot_duration_s
    rows = np.rint((unix_s - begun_s) / slot_s)
    check_size(where, config, float(rows.max()) + 1)
    slots = int(rows.max()) + 1
    ends = np.cumsum([len(walk.samples) for walk in walks])
    span = int(rows[: ends[0]].max()) + 1, int(rows[ends[-2] :].min()) + 1
    if span[0] >= span[1]:
        raise DataError(f"{where}: is damaged: its walks are not one after the other")
    found, available = _cells(config, rows.astype(np.intp), position, reward, slots)
    began: Floats = begun_s + np.arange(slots) * np.float64(slot_s)
    return RewardMap(
        found,
        noise_std(walks) * np.random.default_rng(config.run.seed).standard_normal(slots),
        walks[0].position,
        walks[0].reward,
        available=available,
        unix_s=began,
        span=span,
    )


def noise_std(walks: Sequence[Survey]) -> float:
    """The standard deviation of a sample, as the probe reported; 0 if it does not know it."""
    sigma = np.array([sample.uncertainty for walk in walks for sample in walk.samples])
    known = sigma[np.isfinite(sigma)]
    return float(np.sqrt(np.mean(known**2))) if len(known) else 0.0


def left_out_error(walks: Sequence[Survey]) -> float:
    """How far each walk is from what the walks before and after it say of it: a root mean square.

    It contains the noise of the samples, over twice the time of a gap in the map.
    """
    errors = []
    for before, walk, after in zip(walks, walks[1:], walks[2:], strict=False):
        times, rewards = (
            [np.interp(walk.position, each.position, known(each)) for each in (before, after)]
            for known in (_times, lambda survey: survey.reward)
        )
        share = (_times(walk) - times[0]) / (times[1] - times[0])
        errors.append(walk.reward - rewards[0] - share * (rewards[1] - rewards[0]))
    return float(np.sqrt(np.mean(np.square(np.concatenate(errors)))))


def _times(survey: Survey) -> Floats:
    return np.array([sample.unix_s for sample in survey.samples])


def map_of_slots(
    where: object,
    config: Config,
    survey: Survey,
    slot: NDArray[np.int64],
    unix_s: Floats,
    position: Floats,
    reward: Floats,
) -> RewardMap:
    """The map of recorded slots: known where the antenna was. Missed slots are unknown.

    `unix_s` is when each slot began.
    """
    first, slot_s = int(slot[0]), config.physical.slot_duration_s
    slots = int(slot[-1]) - first + 1
    check_size(where, config, slots)
    rows = slot - first
    edge = config.grid.spacing / 2
    with np.errstate(invalid="ignore"):  # a damaged file can contain any number
        usable = np.isfinite(reward) & (np.abs(reward) <= config.largest_reward)
        usable &= (position >= -edge) & (position <= config.grid.length + edge)
    if not usable.any():
        raise DataError(f"{where}: has no reward", "see the column `invalid` of its slots")
    found, available = _cells(config, rows[usable], position[usable], reward[usable], slots)
    begun_s = float(np.median(unix_s - rows * slot_s))
    began: Floats = begun_s + np.arange(slots) * np.float64(slot_s)
    return RewardMap(
        found,
        np.zeros(slots),
        survey.position,
        survey.reward,
        available=available,
        unix_s=began,
    )


def check_size(where: object, config: Config, slots: float) -> None:
    """Raise DataError if a map of this number of slots is too large."""
    most = MAP_LIMIT_BYTES // (8 * config.grid_size)
    if slots > most:
        raise DataError(
            f"{where}: a map of {slots:.0f} slots × {config.grid_size} positions takes "
            f"{slots * config.grid_size * 8 / 2**30:.1f} GiB, and {MAP_LIMIT_BYTES / 2**30:g} "
            "GiB is the limit",
            f"export its beginning with --slots {most} or fewer",
        )


def _cells(
    config: Config, rows: NDArray[np.int64], position: Floats, reward: Floats, slots: int
) -> tuple[Floats, Flags]:
    """The rewards at the nearest grid positions; the mean where there are several, else NaN."""
    shape = slots, config.grid_size
    columns = np.clip(np.rint(position / config.grid.spacing), 0, shape[1] - 1).astype(np.intp)
    place, cell = np.unique(rows * shape[1] + columns, return_inverse=True)
    found = np.full(shape, np.nan)
    found.flat[place] = np.bincount(cell, weights=reward) / np.bincount(cell)
    return found, ~np.isnan(found)
