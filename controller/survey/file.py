"""The file of a survey: the next run uses it while it is fresh."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from math import isnan, nan
from pathlib import Path
from typing import Any

import numpy as np

from macontrol.config import Config
from macontrol.config.files.atomic_file import atomic_file
from macontrol.config.files.input_file import RESULT_LIMIT, check_archive
from macontrol.config.model.errors import InputOutputError, reason_of
from macontrol.config.schema import driver_settings
from macontrol.config.sections.physical import Physical
from macontrol.config.sections.section import Section
from macontrol.config.sections.survey import Survey as SurveySettings
from macontrol.controller.recording.runfile.files import default_run_folder, file_stem
from macontrol.controller.survey.samples import Survey
from macontrol.hal.backend import difference


def kept_survey_path(port: str) -> Path:
    """Where the survey of the stage on a port is stored for the next run.

    The file is named after the port as it was given: a permanent name (/dev/serial/by-id/…) finds
    it again after the port has changed its number.
    """
    return default_run_folder() / f"survey-{file_stem(port)}.npz"


def save_survey(path: Path, config: Config, survey: Survey, identity: Mapping[str, str]) -> None:
    """Write a survey of this bench, completely or not at all."""
    walked_wall_s = time.time() if survey.walked_wall_s is None else survey.walked_wall_s
    noise_variance = nan if survey.noise_variance is None else survey.noise_variance
    with atomic_file(path, "the survey was not written") as file:
        np.savez(
            file,
            position=survey.position,
            reward=survey.reward,
            noise_variance=np.array(noise_variance),
            time=np.array(walked_wall_s),
            bench=np.array(_bench(config)),
            identity=np.array(json.dumps(dict(identity))),
        )


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
    position, reward = (kept[name].astype(float, casting="safe") for name in ("position", "reward"))
    noise_variance = float(kept["noise_variance"].item()) if "noise_variance" in kept else nan
    return Survey(
        position,
        reward,
        noise_variance=None if isnan(noise_variance) else noise_variance,
        walked_wall_s=float(kept["time"].item()),
    )


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
