"""A reward map: what the reward was, everywhere on the rail, in every slot of a run.

Simulated or recorded, it is all that a policy can be replayed on and the oracle computed from:
the noise-free rewards over the grid, the noise of each slot's observation, and the survey.
"""

from __future__ import annotations

import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from macontrol.config import Config, stored_config
from macontrol.config.files.atomic_file import atomic_file
from macontrol.config.files.input_file import check_archive
from macontrol.config.model.errors import DataError
from macontrol.sim.world.channel import reward_rows, survey_rewards
from macontrol.sim.world.drift import Streams

Floats = NDArray[np.float64]

VARIATION_BLOCK_SLOTS = 512


@dataclass(frozen=True)
class RewardMap:
    """The rewards of T slots over the G grid positions, their noise, and the survey before them."""

    reward: Floats
    """g_t(x), noise-free: T × G."""
    noise: Floats
    """eps_t, the noise of the observation in each slot: T."""
    survey_position: Floats
    """Where the survey looked, in wavelengths."""
    survey_reward: Floats
    """What it saw there, with noise."""

    @property
    def slots(self) -> int:
        return len(self.noise)

    def save(
        self, path: Path | str, *, seed: int | None = None, config: Config | None = None
    ) -> None:
        """Write the map as an npz archive under exactly this name, whole or not at all.

        The seed and the config it came from are kept beside the arrays when they are given.
        """
        arrays: dict[str, NDArray[np.generic]] = {
            "reward": self.reward,
            "noise": self.noise,
            "survey_position": self.survey_position,
            "survey_reward": self.survey_reward,
        }
        if seed is not None:
            arrays["seed"] = np.array(seed)
        if config is not None:
            arrays["config"] = np.array(config.model_dump_json())
        with atomic_file(Path(path), "the reward map was not written") as file:
            np.savez(file, allow_pickle=False, **arrays)


def simulate_map(config: Config, seed: int, slots: int) -> RewardMap:
    """The reward map of one realization of the simulated channel; the same for the same seed."""
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
    """Read a map that `save` wrote, or that was recorded, and refuse what does not fit the config.

    Nothing in the file is executed: pickled objects are refused.
    """
    arrays = _read_arrays(Path(path), ("reward", "noise", "survey_position", "survey_reward"))
    for name, array in arrays.items():
        dimensions = 2 if name == "reward" else 1
        if array.ndim != dimensions:
            raise _unfit(path, name, f"has {array.ndim} dimensions", f"it must have {dimensions}")
        if array.size == 0:
            raise _unfit(
                path, name, f"is empty: shape {array.shape}", "it needs at least one value"
            )
        broken = np.argwhere(~np.isfinite(array))
        if len(broken):
            place = ", ".join(str(i) for i in broken[0])
            raise _unfit(
                path,
                name,
                f"holds {len(broken)} values that are not finite, the first at [{place}]",
                "every value must be a finite number",
            )
    reward, noise = arrays["reward"], arrays["noise"]
    position, seen = arrays["survey_position"], arrays["survey_reward"]
    if reward.shape[1] != config.grid_size:
        length, spacing = config.physical.region_length, config.algorithm.grid_spacing
        raise _unfit(
            path,
            "reward",
            f"has {reward.shape[1]} positions a slot",
            f"physical.region_length = {length:g} at algorithm.grid_spacing = {spacing:g} makes "
            f"{config.grid_size}: set these two to what the map was made with",
        )
    if len(noise) != len(reward):
        raise _unfit(
            path, "noise", f"has {len(noise)} slots", f"reward has {len(reward)}: one for each"
        )
    if len(position) < 2:
        raise _unfit(path, "survey_position", "has 1 sample", "a survey needs at least 2")
    if len(seen) != len(position):
        raise _unfit(
            path,
            "survey_reward",
            f"has {len(seen)} samples",
            f"survey_position has {len(position)}: one for each",
        )
    length = config.physical.region_length
    # Positions that were converted from millimetres may miss the ends by a rounding error.
    off = np.flatnonzero((position < -1e-9 * length) | (position > (1 + 1e-9) * length))
    if len(off):
        raise _unfit(
            path,
            "survey_position",
            f"holds {position[off[0]]:g} at [{off[0]}], off the rail",
            f"positions are in wavelengths, within [0, {length:g}]",
        )
    return RewardMap(reward, noise, np.clip(position, 0.0, length), seen)


def map_config(path: Path | str) -> Config | None:
    """The config that a map was made with, if the file keeps one."""
    check_archive(Path(path))
    try:
        archive = np.load(path, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            return None
        with archive:
            if "config" not in archive.files:
                return None
            text = str(archive["config"])
    except Exception:  # numpy may raise anything over a damaged archive
        return None  # `load_map` says what is wrong with the file
    try:
        return stored_config(text)
    except DataError as error:
        raise DataError(
            f"{path}: the config in it cannot be used: {error}; "
            "give --preset, and --config or --set, to replay the map without it"
        ) from None


def cumulative_variation(reward: Floats) -> Floats:
    """V_T of eq. (variation) for T = 1, 2, …: the drift that the first T slots accumulate."""
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


def _read_arrays(path: Path, names: tuple[str, ...]) -> dict[str, Floats]:
    """The named arrays of an npz archive as floats."""
    fitting = "a reward map is an npz archive with the arrays " + ", ".join(names)
    arrays: dict[str, Floats] = {}
    name = ""
    check_archive(path)
    try:
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise DataError(f"{path}: holds a single array; {fitting}")
            missing = [name for name in names if name not in archive.files]
            if {"position", "bench"} <= set(archive.files):
                raise DataError(f"{path}: is a survey, one walk along the rail; {fitting}")
            if missing:
                raise DataError(f"{path}: has no array {', '.join(missing)}; {fitting}")
            for name in names:
                array: NDArray[np.generic] | bytes = archive[name]
                if not isinstance(array, np.ndarray):
                    raise _unfit(path, name, "is not an array", fitting)
                if array.dtype.kind not in "fiu":
                    wrong = f"is of type {array.dtype}, not of real numbers"
                    raise _unfit(path, name, wrong, "store it as float64")
                arrays[name] = array.astype(np.float64, copy=False)
    except DataError:
        raise
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path}: cannot be read as a reward map: {error}; {fitting}") from error
    except Exception as error:
        # numpy may raise anything over pickled objects, damaged headers and any other file.
        if not name:
            raise DataError(f"{path}: is no npz archive; {fitting}") from error
        raise DataError(
            f"{path}: array {name} cannot be read as plain numbers ({error}); {fitting}"
        ) from error
    return arrays


def _unfit(path: Path | str, array: str, wrong: str, fitting: str) -> DataError:
    return DataError(f"{path}: array {array} {wrong}; {fitting}")
