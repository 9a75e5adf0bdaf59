"""The file of a survey: one walk or more. The next run uses the last walk while it is fresh.

The arrays have one value per sample, in the order of the walks, with the names and units of the
columns of a run file: `position` (wavelengths), `reward` and `uncertainty` (bit/s/Hz), `unix_s`
(the middle of the measuring interval, UTC), `level_db` in `level_unit`, `noise_floor_db`, `snr_db`,
`clipped_share`, `samples`, and `walk`, the number of the walk. NaN means no number, "" no text.
Files of earlier versions have one walk, and only `position` and `reward`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from math import isnan, nan
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from macontrol.config import Config, stored_config
from macontrol.config.files.atomic_file import atomic_file
from macontrol.config.files.input_file import RESULT_LIMIT, check_archive
from macontrol.config.model.errors import DataError, InputOutputError, reason_of
from macontrol.config.schema import driver_settings
from macontrol.config.sections.physical import Physical
from macontrol.config.sections.section import Section
from macontrol.config.sections.survey import Survey as SurveySettings
from macontrol.controller.recording.runfile.files import default_run_folder, file_stem
from macontrol.controller.survey.samples import Array, Sample, Survey
from macontrol.hal.backend import difference
from macontrol.hal.probe import Signal

_SIGNAL_NUMBERS = tuple(name for name in Signal._fields if name != "level_unit")
# Later than any survey, in seconds since 1970.
_LATEST_S = 1e10
_FORMAT = "`macontrol survey --out FILE.npz` writes one"


def kept_survey_path(port: str) -> Path:
    """Where the survey of the stage on a port is stored for the next run.

    The file is named after the port as it was given: a permanent name (/dev/serial/by-id/…) finds
    it again after the port has changed its number.
    """
    return default_run_folder() / f"survey-{file_stem(port)}.npz"


def save_survey(path: Path, config: Config, survey: Survey, identity: Mapping[str, str]) -> None:
    """Write a survey of this bench, completely or not at all."""
    save_walks(path, config, [survey], identity)


def save_walks(
    path: Path, config: Config, walks: Sequence[Survey], identity: Mapping[str, str]
) -> None:
    """Write the surveys of several walks in a row, completely or not at all."""
    last = walks[-1]
    walked_wall_s = time.time() if last.walked_wall_s is None else last.walked_wall_s
    noise_variance = nan if last.noise_variance is None else last.noise_variance
    numbers = [np.full(len(walk.position), number) for number, walk in enumerate(walks, start=1)]
    arrays: dict[str, NDArray[Any]] = {
        "position": np.concatenate([walk.position for walk in walks]),
        "reward": np.concatenate([walk.reward for walk in walks]),
        "noise_variance": np.array(noise_variance),
        "time": np.array(walked_wall_s),
        "bench": np.array(_bench(config)),
        "identity": np.array(json.dumps(dict(identity))),
        "walk": np.concatenate(numbers),
        "walk_ended_unix_s": np.array([walk.walked_wall_s or walked_wall_s for walk in walks]),
        **_details(walks),
        "config": np.array(config.model_dump_json()),
    }
    with atomic_file(path, "the survey was not written") as file:
        np.savez(file, allow_pickle=False, **arrays)


def _details(walks: Sequence[Survey]) -> dict[str, NDArray[np.generic]]:
    """What else is known of each sample; nothing if a walk has positions and rewards only."""
    if not all(walk.samples for walk in walks):
        return {}
    samples = [sample for walk in walks for sample in walk.samples]
    signals = [sample.signal._asdict() for sample in samples]
    return {
        "unix_s": np.array([sample.unix_s for sample in samples], float),
        "uncertainty": np.array([sample.uncertainty for sample in samples], float),
        "level_unit": np.array([signal["level_unit"] or "" for signal in signals], str),
        **{
            name: np.array([nan if known[name] is None else known[name] for known in signals])
            for name in _SIGNAL_NUMBERS
        },
    }


def keep_survey(config: Config, survey: Survey, identity: Mapping[str, str]) -> str | None:
    """Store a survey for the next run on this port; return the problem if that fails."""
    path = kept_survey_path(config.stage.port_path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save_survey(path, config, survey, identity)
    except OSError as error:
        return f"the survey is not stored for the next run: {path}: {reason_of(error)}"
    except InputOutputError as error:
        return f"the survey is not stored for the next run: {error}"
    return None


class RecordedWalks(NamedTuple):
    """What a survey file contains."""

    config: Config
    walks: list[Survey]


def read_walks(path: Path) -> RecordedWalks:
    """The walks of a survey file with the time of each sample; DataError if it has none."""
    check_archive(path)
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as kept:
            walks, names = _walks_in(kept), set(kept.files)
            config_json = str(kept["config"]) if "config" in names else None
    except Exception as error:  # a damaged archive may raise anything
        raise DataError(f"{path}: cannot be read as a survey: {error}", _FORMAT) from error
    if config_json is None or "unix_s" not in names:
        raise DataError(
            f"{path}: is a survey of an earlier version, without the times of its samples",
            "measure the rail again with this version",
        )
    try:
        config = stored_config(config_json)
    except DataError as error:
        raise DataError(
            f"{path}: its config cannot be used: {error.detail}",
            "use the version of macontrol that wrote it",
        ) from None
    if not all(walk.can_be(config) for walk in walks):
        raise DataError(f"{path}: is damaged: its samples do not fit its rail", _FORMAT)
    if not all(0 <= sample.unix_s < _LATEST_S for walk in walks for sample in walk.samples):
        raise DataError(f"{path}: is damaged: its samples have impossible times", _FORMAT)
    return RecordedWalks(config, walks)


@dataclass(frozen=True)
class NoSurvey:
    """Why a stored survey is not used."""

    reason: str


def fresh_survey(path: Path, config: Config, identity: Mapping[str, str]) -> Survey | NoSurvey:
    """The survey in a file, if it is complete, of this bench and not too old for sigma_f."""
    if not path.is_file():
        return NoSurvey("there is no stored survey")
    try:
        check_archive(path, RESULT_LIMIT)
        with np.load(BytesIO(path.read_bytes()), allow_pickle=False) as kept:
            survey, reason = _survey_in(kept), _refusal(kept, config, identity)
    except Exception:  # a damaged archive may raise anything; the rail is walked again
        return NoSurvey(f"{path} cannot be read")
    if reason is None and not survey.can_be(config):
        reason = "does not fit this rail"
    return survey if reason is None else NoSurvey(f"{path} {reason}")


def _survey_in(kept: Mapping[str, Any]) -> Survey:
    """The last walk of a file."""
    return _walks_in(kept)[-1]


def _walks_in(kept: Mapping[str, Any]) -> list[Survey]:
    """The walks of a file; raise anything if it is damaged."""
    position, reward = (kept[name].astype(float, casting="safe") for name in ("position", "reward"))
    noise_variance = float(kept["noise_variance"].item()) if "noise_variance" in kept else nan
    noise = None if isnan(noise_variance) else noise_variance
    ended = float(kept["time"].item())
    if "walk" not in kept:
        return [Survey(position, reward, noise_variance=noise, walked_wall_s=ended)]
    walk, ends = kept["walk"], kept["walk_ended_unix_s"].astype(float, casting="safe")
    if not walk.shape == position.shape == reward.shape == (len(walk),):
        raise ValueError("its arrays have different lengths")
    samples = _samples_in(kept, position, reward)
    walks = []
    for number, walked_wall_s in enumerate(ends.tolist(), start=1):
        chosen = np.flatnonzero(walk == number)
        if samples:
            found = Survey.of([samples[index] for index in chosen], walked_wall_s)
        else:
            found = Survey(position[chosen], reward[chosen], noise, walked_wall_s)
        walks.append(found)
    return walks


def _samples_in(kept: Mapping[str, Any], position: Array, reward: Array) -> list[Sample]:
    """What is known of each sample; empty for a file that has positions and rewards only."""
    if "unix_s" not in kept:
        return []
    columns = [
        kept[name].astype(float, casting="safe").tolist()
        for name in ("uncertainty", "unix_s", *_SIGNAL_NUMBERS)
    ]
    rows = zip(position.tolist(), reward.tolist(), *columns, strict=True)
    samples = []
    for unit, row in zip(kept["level_unit"].tolist(), rows, strict=True):
        found = [None if isnan(number) else number for number in row[4:]]
        signal = Signal(**dict(zip(_SIGNAL_NUMBERS, found, strict=True)))
        count = None if signal.samples is None else int(signal.samples)
        signal = signal._replace(level_unit=str(unit) or None, samples=count)
        place, reward_there, sigma, unix_s = row[:4]
        samples.append(Sample(place, reward_there, sigma, unix_s, signal))
    return samples


def _refusal(kept: Mapping[str, Any], config: Config, identity: Mapping[str, str]) -> str | None:
    age_s = time.time() - float(kept["time"].item())
    if not 0 <= age_s < config.survey.fresh_s:
        return f"is {age_s:.0f} s old, and survey.fresh_s = {config.survey.fresh_s:g}"
    if _kept_bench(str(kept["bench"])) != _bench(config):
        return "was measured with other settings"
    if "identity" not in kept:
        return "has no identity of its bench"
    if change := difference(json.loads(str(kept["identity"])), identity):
        return f"is of another bench: {change}"
    return None


def _bench(config: Config) -> str:
    """The settings that a survey depends on: rail, slot, radio, sampling."""
    return _dumped(config.physical, config.survey, config.stage, config.probe)


def _kept_bench(text: str) -> str:
    """The bench of a kept survey in the present spelling; earlier versions had another."""
    physical, survey, stage, probe = json.loads(text)
    return _dumped(
        Physical.model_validate(physical),
        SurveySettings.model_validate(survey),
        driver_settings("stage", stage),
        driver_settings("probe", probe),
    )


def _dumped(*tables: Section) -> str:
    when_to_home = {"homing", "homing_time_s", "rehome_every_s"}
    return json.dumps([table.model_dump(exclude=when_to_home) for table in tables], sort_keys=True)
