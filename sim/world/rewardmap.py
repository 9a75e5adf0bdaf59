"""A reward map: the reward at every position of the grid in every slot of a run.

Policies are replayed on a map, simulated or recorded, and the oracle is computed from it. It has
the rewards without noise, the noise of the observation in each slot, and the survey. The map of a
real site has a mask too: where the reward is known. `sim/world/partial.py` interpolates it.
docs/record-a-site.md describes the file.

Rewards and noise are those of a holding antenna, by `physical.actuation` of the map's config. What
a move leaves of them follows from its distance (`config.model.actuation`).
"""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macontrol.config import Config, stored_config
from macontrol.config.files.atomic_file import atomic_file
from macontrol.config.files.input_file import check_archive
from macontrol.config.model.errors import DataError
from macontrol.config.model.grid import ON_GRID
from macontrol.sim.world.channel import reward_rows, survey_rewards
from macontrol.sim.world.drift import Streams

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

VARIATION_BLOCK_SLOTS = 512

_ARRAYS = ("reward", "noise", "survey_position", "survey_reward")
_OPTIONAL = ("available", "unix_s", "span")
_FORMAT = (
    f"a reward map is an npz archive with the arrays {', '.join(_ARRAYS)}; "
    "`macontrol simulate-map` writes one, "
    "and `macontrol export FILE --format map` writes that of a run or of a repeated survey"
)


@dataclass(frozen=True)
class RewardMap:
    """The rewards of T slots at G grid positions, their noise, and the survey before slot 1."""

    reward: Floats
    """g_t(x), noise-free: T × G."""
    noise: Floats
    """eps_t, the noise of the observation in each slot: T."""
    survey_position: Floats
    """The positions of the survey, in wavelengths."""
    survey_reward: Floats
    """The rewards of the survey, with noise."""
    available: Flags | None = None
    """Where the reward is known: T × G. None: everywhere; elsewhere the reward is NaN."""
    unix_s: Floats | None = None
    """When each slot began, in seconds of UTC since 1970; None for a world without a date."""
    span: tuple[int, int] | None = None
    """The first row that a policy is replayed in, and the end; None: all.

    The rows before and after only serve the interpolation.
    """

    @property
    def slots(self) -> int:
        return len(self.noise)

    def scaled(self, factor: float) -> RewardMap:
        """The map with all rewards multiplied by a factor."""
        return replace(
            self,
            reward=self.reward * factor,
            noise=self.noise * factor,
            survey_reward=self.survey_reward * factor,
        )

    def save(
        self,
        path: Path | str,
        *,
        seed: int | None = None,
        config: Config | None = None,
        origin: Mapping[str, Any] | None = None,
    ) -> None:
        """Write the map as an npz archive under exactly this name, completely or not at all.

        The seed and the config of a simulated map, and what made it, can be stored beside the
        arrays.
        """
        arrays: dict[str, NDArray[np.generic]] = {name: getattr(self, name) for name in _ARRAYS}
        for name in _OPTIONAL:
            if getattr(self, name) is not None:
                arrays[name] = np.array(getattr(self, name))
        if seed is not None:
            arrays["seed"] = np.array(seed)
        if config is not None:
            arrays["config"] = np.array(config.model_dump_json())
        if origin is not None:
            arrays["origin"] = np.array(json.dumps(origin))
        with atomic_file(Path(path), "the reward map was not written") as file:
            np.savez(file, allow_pickle=False, **arrays)


def simulate_map(config: Config, seed: int, slots: int) -> RewardMap:
    """The reward map of one realization of the simulated channel, given by its seed."""
    if slots < 1:
        raise ValueError(f"a reward map needs at least one slot, not {slots}")
    noise = config.noise_std * Streams.from_seed(seed).noise.standard_normal(slots)
    return RewardMap(
        reward_rows(config, seed, slots),
        noise,
        np.array(config.survey_positions),
        survey_rewards(config, seed),
    )


def load_map(path: Path | str, config: Config) -> RewardMap:
    """Read a simulated or recorded map, and refuse one that does not fit the config.

    A map that was made with the other `physical.actuation` is converted: its rewards are those of
    a holding antenna, which transmits in another share of the slot. Nothing in the file is
    executed: pickled objects are refused.
    """
    found = _fitting(path, _checked_map(path, _read_arrays(Path(path))), config)
    try:
        stored = map_config(path)
    except DataError:  # written by another version; the caller has given another config
        stored = None
    if stored is None or stored.physical.actuation == config.physical.actuation:
        return found
    return found.scaled(config.physical.transmission_share / stored.physical.transmission_share)


def check_map(path: Path | str) -> None:
    """Raise DataError for a file that is no reward map of any config."""
    _checked_map(path, _read_arrays(Path(path)))


def map_of(where: str, arrays: Mapping[str, NDArray[Any]], config: Config) -> RewardMap:
    """A map of given arrays, checked like those of a file; an error names `where`."""
    return _fitting(where, _checked_map(where, arrays), config)


def _checked_map(where: Path | str, arrays: Mapping[str, NDArray[Any]]) -> RewardMap:
    """The map of these arrays, each checked by itself."""
    available = _mask(where, arrays.get("available"), arrays["reward"])
    numbers = {
        name: _numbers(where, name, arrays[name], available if name == "reward" else None)
        for name in _ARRAYS
    }
    slots = len(numbers["reward"])
    return RewardMap(
        **numbers,
        available=available,
        unix_s=_times(where, arrays.get("unix_s"), slots),
        span=_span(where, arrays.get("span"), slots),
    )


def _fitting(path: Path | str, found: RewardMap, config: Config) -> RewardMap:
    """The map with its survey on the rail; DataError if it does not fit the config."""
    _check_sizes(path, found, config)
    length = config.physical.region_length
    position = found.survey_position
    # Positions that were converted from millimetres may miss the ends by a rounding error.
    off = np.flatnonzero((position < -ON_GRID * length) | (position > (1 + ON_GRID) * length))
    if len(off):
        raise _unfit(
            path,
            "survey_position",
            f"has {position[off[0]]:g} at [{off[0]}], which is off the rail",
            f"positions are in wavelengths, within [0, {length:g}]",
        )
    return replace(found, survey_position=np.clip(position, 0.0, length))


def map_seed(path: Path | str) -> int | None:
    """The seed of a map, if the file has one."""
    text = _stored_text(path, "seed")
    return int(text) if text is not None and text.isdecimal() else None


def map_config(path: Path | str) -> Config | None:
    """The config of a map, if the file has one."""
    text = _stored_text(path, "config")
    try:
        return None if text is None else stored_config(text)
    except DataError as error:
        raise DataError(
            f"{path}: its config cannot be used: {error}",
            "give --preset, and --config or --set, to replay the map without it",
        ) from None


def map_origin(path: Path | str) -> dict[str, Any] | None:
    """What made a simulated map (`World.origin`), if the file says it."""
    try:
        found = json.loads(_stored_text(path, "origin") or "null")
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _stored_text(path: Path | str, name: str) -> str | None:
    """What is stored under a name beside the arrays of a map, if anything."""
    check_archive(Path(path))
    try:
        with open(path, "rb") as file:  # numpy leaves a damaged archive open
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                return None
            return str(archive[name]) if name in archive.files else None
    except Exception:  # numpy may raise anything for a damaged archive
        return None  # `load_map` reports what is wrong with the file


def cumulative_variation(reward: Floats) -> Floats:
    """V_T of eq. (variation) for T = 1, 2, …"""
    steps = np.zeros(len(reward))
    for begin in range(0, len(reward) - 1, VARIATION_BLOCK_SLOTS):
        block = reward[begin : begin + VARIATION_BLOCK_SLOTS + 1]
        difference = np.diff(block, axis=0)
        np.abs(difference, out=difference)
        steps[begin + 1 : begin + len(block)] = difference.max(axis=1)
    return np.cumsum(steps)


def variation_budget(reward: Floats) -> float:
    """V_T of eq. (variation): the sum over slots of the largest change anywhere on the rail."""
    return float(cumulative_variation(reward)[-1])


def _read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a map, as stored."""
    arrays: dict[str, NDArray[Any]] = {}
    name = ""
    check_archive(path)
    try:
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            _check_content(path, archive)
            for name in (*_ARRAYS, *(name for name in _OPTIONAL if name in archive.files)):
                arrays[name] = archive[name]
    except DataError:
        raise
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path}: cannot be read as a reward map: {error}", _FORMAT) from error
    except Exception as error:
        # numpy may raise anything for pickled objects, damaged headers and any other file.
        if not name:
            raise DataError(f"{path}: is not an npz archive", _FORMAT) from error
        raise DataError(
            f"{path}: array {name} cannot be read as plain numbers ({error})", _FORMAT
        ) from error
    return arrays


def _check_content(path: Path, archive: object) -> None:
    if not isinstance(archive, np.lib.npyio.NpzFile):
        raise DataError(f"{path}: is a single array", _FORMAT)
    if {"position", "bench"} <= set(archive.files):
        raise DataError(
            f"{path}: is a survey",
            "`macontrol export FILE --format map` makes a map of one with 3 walks or more",
        )
    missing = [name for name in _ARRAYS if name not in archive.files]
    if missing:
        raise DataError(f"{path}: has no array {', '.join(missing)}", _FORMAT)


def _numbers(
    path: Path | str, name: str, array: NDArray[np.generic] | bytes, known: Flags | None = None
) -> Floats:
    """An array as floats, all finite; with `known` only there, and NaN elsewhere."""
    if not isinstance(array, np.ndarray):
        raise _unfit(path, name, "is not an array", _FORMAT)
    if array.dtype.kind not in "fiu":
        raise _unfit(path, name, f"has the type {array.dtype}", "store it as float64")
    numbers = array.astype(np.float64, copy=False)
    dimensions = 2 if name == "reward" else 1
    if numbers.ndim != dimensions:
        raise _unfit(path, name, f"has {numbers.ndim} dimensions", f"it must have {dimensions}")
    if numbers.size == 0:
        raise _unfit(path, name, f"is empty: shape {numbers.shape}", "it needs at least one value")
    if known is not None:
        numbers = np.where(known, numbers, 0.0)
    broken = np.argwhere(~np.isfinite(numbers))
    if len(broken):
        place = ", ".join(str(i) for i in broken[0])
        raise _unfit(
            path,
            name,
            f"has {len(broken)} values that are not finite, the first at [{place}]",
            "every value must be a finite number; mark what is unknown in the array available",
        )
    if known is not None:
        numbers[~known] = np.nan
    return numbers


def _mask(path: Path | str, array: object, reward: NDArray[Any]) -> Flags | None:
    """Where the reward is known; None for a map that is known everywhere."""
    if array is None:
        return None
    if not isinstance(array, np.ndarray) or array.dtype != np.bool_:
        raise _unfit(path, "available", "is not an array of truths", "store it as bool")
    if array.shape != np.shape(reward):
        detail = f"has the shape {array.shape}, and reward has {np.shape(reward)}"
        raise _unfit(path, "available", detail, "it needs one truth per reward")
    if not array.any():
        raise _unfit(path, "available", "is false everywhere", "a map needs a known reward")
    return None if array.all() else array


def _times(path: Path | str, array: NDArray[Any] | None, slots: int) -> Floats | None:
    """When the slots began."""
    if array is None:
        return None
    times = _numbers(path, "unix_s", array)
    if len(times) != slots:
        detail = f"has {len(times)} slots, and reward has {slots}"
        raise _unfit(path, "unix_s", detail, "it needs one time per slot")
    if not (np.diff(times) > 0).all():
        raise _unfit(path, "unix_s", "does not increase", "each slot begins after the one before")
    return times


def _span(path: Path | str, array: object, slots: int) -> tuple[int, int] | None:
    """The rows that a policy is replayed in."""
    if array is None:
        return None
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "iu" or array.shape != (2,):
        raise _unfit(
            path, "span", "is not a pair of whole numbers", "store the first row and the end"
        )
    first, end = array.tolist()
    if not 0 <= first < end <= slots:
        detail = f"is {first} to {end}, and reward has {slots} rows"
        raise _unfit(path, "span", detail, "it must be a part of them")
    return first, end


def _check_sizes(path: Path | str, found: RewardMap, config: Config) -> None:
    slots, points = found.reward.shape
    samples = len(found.survey_position)
    if points != config.grid_size:
        length, spacing = config.physical.region_length, config.algorithm.grid_spacing
        raise _unfit(
            path,
            "reward",
            f"has {points} positions per slot, and the config has {config.grid_size}, by "
            f"physical.region_length = {length:g} and algorithm.grid_spacing = {spacing:g}",
            "set these two to the values that the map was made with",
        )
    if len(found.noise) != slots:
        detail = f"has {len(found.noise)} slots, and reward has {slots}"
        raise _unfit(path, "noise", detail, "it needs one value per slot")
    if samples < 2:
        raise _unfit(path, "survey_position", "has 1 sample", "a survey needs at least 2")
    if len(found.survey_reward) != samples:
        detail = f"has {len(found.survey_reward)} samples, and survey_position has {samples}"
        raise _unfit(path, "survey_reward", detail, "it needs one value per position")


def _unfit(path: Path | str, array: str, wrong: str, fix: str) -> DataError:
    return DataError(f"{path}: array {array} {wrong}", fix)
