"""A run file's header: what was run, by which version, where, and with which clock."""

from __future__ import annotations

import json
import os
import platform
import socket
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from math import isfinite, nan
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, get_type_hints

import numpy as np
from pydantic import BaseModel, TypeAdapter, ValidationError

from macontrol import __version__
from macontrol.config import Config, stored_config
from macontrol.config.model.errors import DataError
from macontrol.config.sections.run import LARGEST_SEED
from macontrol.controller.survey.samples import Sample as SurveySample
from macontrol.controller.survey.samples import Survey
from macontrol.hal.probe import Signal

ClockName: TypeAlias = Literal["monotonic", "virtual"]


class Sample(NamedTuple):
    """The reward of a slot, as in a policy's window."""

    slot: int
    position: float
    """In wavelengths."""
    reward: float


class Resurvey(NamedTuple):
    """A survey within the run; a policy that was built from it decided after this slot."""

    slot: int
    survey: Survey


@dataclass(frozen=True, kw_only=True, eq=False)
class RunHeader:
    """The facts of a run, without its records. Build it with `of`."""

    config_json: str
    """The complete config of the run; see `config`."""
    seed: int
    policy: str
    backend: str
    stage: str
    survey: Survey | None
    sigma_f2: float | None
    """The kernel's output scale, from the survey."""
    started_wall_s: float
    """When the run began, in seconds of UTC since 1970 …"""
    started_clock_s: float
    """… and at the same moment on the clock of the records."""
    clock: ClockName = "monotonic"
    window: Sequence[Sample] = ()
    """The samples that a resumed run got from the earlier one, oldest first."""
    resumed_from: str | None = None
    resurvey: Resurvey | None = None
    """The last survey within the run; None if there was none."""
    origins: dict[str, str] | None = None
    """Where each value of the config was set, if not by default; None if that is unknown."""
    identity: dict[str, str] | None = None
    """The identity of the bench, in named parts; None in files of earlier versions."""
    version: str = __version__
    host: str = ""
    pid: int = 0
    boot_id: str = ""
    """The boot of the host: a monotonic clock is valid only within it."""
    python: str = ""
    numpy: str = ""
    scipy: str = ""
    sqlite: str = ""

    @classmethod
    def of(
        cls,
        config: Config,
        *,
        backend: str,
        stage: str,
        survey: Survey | None,
        sigma_f2: float | None,
        started_wall_s: float,
        started_clock_s: float,
        clock: ClockName = "monotonic",
        window: Sequence[Sample] = (),
        resumed_from: str | None = None,
        identity: Mapping[str, str] | None = None,
        origins: Mapping[str, str] | None = None,
    ) -> RunHeader:
        """The header of a run of this process."""
        return cls(
            config_json=config.model_dump_json(),
            seed=config.run.seed,
            policy=config.algorithm.policy,
            backend=backend,
            stage=stage,
            survey=survey,
            sigma_f2=sigma_f2,
            started_wall_s=started_wall_s,
            started_clock_s=started_clock_s,
            clock=clock,
            window=tuple(window),
            resumed_from=resumed_from,
            identity=None if identity is None else dict(identity),
            origins=None if origins is None else dict(origins),
            host=socket.gethostname(),
            pid=os.getpid(),
            boot_id=this_boot(),
            python=platform.python_version(),
            numpy=np.__version__,
            scipy=version("scipy"),
            sqlite=sqlite3.sqlite_version,
        )

    @property
    def config(self) -> Config:
        """The run's config; DataError if this version cannot read it."""
        try:
            return stored_config(self.config_json)
        except DataError as error:
            raise DataError(
                f"the run's config does not fit macontrol {__version__}: {error.detail}",
                f"use macontrol {self.version}, which wrote it",
            ) from None

    @property
    def started(self) -> datetime:
        return datetime.fromtimestamp(self.started_wall_s, UTC)

    def wall_s(self, clock_s: float) -> float:
        """A time on the run's clock, in seconds of UTC since 1970."""
        return self.started_wall_s + (clock_s - self.started_clock_s)

    def rows(self) -> list[tuple[str, str]]:
        """The header as stored: keys and JSON values."""
        values: dict[str, Any] = {
            "started_utc": self.started.isoformat(timespec="microseconds"),
            **{name: getattr(self, name) for name in _PLAIN},
            "window": [[int(s.slot), float(s.position), float(s.reward)] for s in self.window],
            "survey": self.survey and _as_stored(self.survey),
        }
        if self.resurvey is not None:
            slot, survey = self.resurvey
            values["resurvey"] = {"slot": slot, **_as_stored(survey)}
        rows = [(key, json.dumps(value)) for key, value in values.items()]
        return [*rows, ("config", self.config_json)]

    @classmethod
    def from_rows(cls, rows: Mapping[str, str]) -> RunHeader:
        """The header from its stored keys; DataError if they are wrong."""
        if missing := [name for name in _REQUIRED if name not in rows]:
            raise DataError(f"its header has no {missing[0]}")
        _parse("config", rows["config"])
        values = {name: _parse(name, rows[name]) for name in _PLAIN if name in rows}
        if not 0 <= values["seed"] <= LARGEST_SEED:
            raise DataError("its header's seed is out of range")
        for name, earliest_s in (("started_wall_s", 0.0), ("started_clock_s", -_LATEST_S)):
            if not earliest_s <= values[name] < _LATEST_S:
                raise DataError(f"its header's {name} is not a possible time")
        survey: _StoredSurvey | None = _parse("survey", rows.get("survey", "null"))
        again: _StoredResurvey | None = _parse("resurvey", rows.get("resurvey", "null"))
        return cls(
            **values,
            config_json=rows["config"],
            window=_parse("window", rows.get("window", "[]")),
            survey=None if survey is None else survey.restore(),
            resurvey=None if again is None else Resurvey(again.slot, again.restore()),
        )


def _as_stored(survey: Survey) -> dict[str, Any]:
    return {
        "position": survey.position.tolist(),
        "reward": survey.reward.tolist(),
        "noise_variance": survey.noise_variance,
        "walked_wall_s": survey.walked_wall_s,
        "samples": [
            [_or_none(sample.uncertainty), _or_none(sample.unix_s), *sample.signal]
            for sample in survey.samples
        ],
    }


def _or_none(number: float) -> float | None:
    return number if isfinite(number) else None


class _StoredSample(NamedTuple):
    """What else is known of a sample of a survey."""

    uncertainty: float | None
    unix_s: float | None
    level_db: float | None
    level_unit: str | None
    noise_floor_db: float | None
    snr_db: float | None
    clipped_share: float | None
    samples: int | None


class _StoredSurvey(BaseModel):
    """A survey as the header stores it."""

    position: list[float]
    reward: list[float]
    noise_variance: float | None = None
    walked_wall_s: float | None = None
    samples: list[_StoredSample] = []
    """One per position, or none: files of earlier versions have none."""

    def restore(self) -> Survey:
        rows = zip(self.position, self.reward, self.samples, strict=False)
        samples = tuple(
            SurveySample(
                position,
                reward,
                nan if sample.uncertainty is None else sample.uncertainty,
                nan if sample.unix_s is None else sample.unix_s,
                Signal(*sample[2:]),
            )
            for position, reward, sample in rows
        )
        is_complete = len(self.position) == len(self.reward) == len(self.samples)
        return Survey(
            np.array(self.position, float),
            np.array(self.reward, float),
            self.noise_variance,
            self.walked_wall_s,
            samples if is_complete else (),
        )


class _StoredResurvey(_StoredSurvey):
    slot: int


# Python has calendar dates up to here, in seconds since 1970, and some thousand years longer.
_LATEST_S = 2e11

# The keys whose JSON value is the field's value.
_PLAIN = tuple(
    name
    for name in RunHeader.__dataclass_fields__
    if name not in ("config_json", "window", "survey", "resurvey")
)
_REQUIRED = (
    "config",
    *(name for name in _PLAIN if RunHeader.__dataclass_fields__[name].default is MISSING),
)


def _parse(name: str, text: str) -> Any:
    """The value of a key; DataError if it is not JSON of the key's type."""
    try:
        return _adapter(name).validate_json(text, strict=True)
    except ValidationError as error:
        raise DataError(f"its header's {name} {_reason(error)}") from None


@cache
def _adapter(name: str) -> TypeAdapter[Any]:
    stored: dict[str, Any] = {
        "config": dict[str, Any],
        "survey": _StoredSurvey | None,
        "resurvey": _StoredResurvey | None,
        "window": tuple[Sample, ...],
    }
    return TypeAdapter(stored[name] if name in stored else get_type_hints(RunHeader)[name])


def _reason(error: ValidationError) -> str:
    return f"is wrong: {error.errors(include_url=False)[0]['msg'][:200]}"


def this_boot() -> str:
    """The boot of this machine; empty where that is unknown."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""
