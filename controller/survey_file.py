"""A walked survey kept in a file, to be used again while it is fresh."""

from __future__ import annotations

import json
import time
from io import BytesIO
from pathlib import Path

import numpy as np

from macontrol.config import Config
from macontrol.config.whole_file import whole_file
from macontrol.controller.runfile.files import default_run_folder, file_stem
from macontrol.controller.survey import Survey


def kept_survey_path(port: str) -> Path:
    """Where the survey of the stage on a port is kept for the next run.

    It goes by the name that the port was called by: one that lasts (/dev/serial/by-id/…) finds it
    again after the port has changed its number.
    """
    return default_run_folder() / f"survey-{file_stem(port)}.npz"


def save_survey(path: Path, config: Config, survey: Survey) -> None:
    """Write a survey, whole or not at all."""
    with whole_file(path, "the survey was not written") as part:
        part.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            np.savez(
                file,
                position=survey.position,
                reward=survey.reward,
                time=np.array(time.time()),
                bench=np.array(_bench(config)),
            )


def fresh_survey(path: Path, config: Config) -> Survey | None:
    """The survey kept in a file, if it is whole, of this bench and not too old; otherwise None."""
    if not path.is_file():
        return None
    try:
        with np.load(BytesIO(path.read_bytes()), allow_pickle=False) as kept:
            age = time.time() - float(kept["time"].item())
            if not 0 <= age < config.survey.fresh_s or str(kept["bench"]) != _bench(config):
                return None
            position, reward = (
                kept[name].astype(float, casting="safe") for name in ("position", "reward")
            )
            survey = Survey(position, reward)
    except Exception:  # a spoilt archive may raise anything, and costs no more than a walk
        return None
    return survey if survey.can_be(config) else None


def _bench(config: Config) -> str:
    """What a survey depends on: another rail, slot, radio or sampling makes another survey."""
    tables = (config.physical, config.survey, config.stage, config.probe)
    when_to_home = {"homing", "homing_time_s", "rehome_every_s"}
    return json.dumps([table.model_dump(exclude=when_to_home) for table in tables], sort_keys=True)
