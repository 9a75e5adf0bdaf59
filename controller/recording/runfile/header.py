"""A run file's header: what was run, by which version, where, and by which clocks."""

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
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, get_type_hints

import numpy as np
from pydantic import BaseModel, TypeAdapter, ValidationError

from macontrol import __version__
from macontrol.config import Config, stored_config
from macontrol.config.model.errors import DataError
from macontrol.config.sections.run import LARGEST_SEED
from macontrol.controller.survey.samples import Survey

ClockName: TypeAlias = Literal["monotonic", "virtual"]


class Sample(NamedTuple):
    """A reward seen in a slot: what a policy's window is made of."""

    slot: int
    position: float
    """In wavelengths."""
    reward: float


@dataclass(frozen=True, kw_only=True, eq=False)
class RunHeader:
    """What a run is; everything but the records. Build it with `of`."""

    config_json: str
    """The whole config as it was resolved; see `config`."""
    seed: int
    policy: str
    backend: str
    stage: str
    survey: Survey | None
    sigma_f2: float | None
    """The kernel's output scale that the survey gave."""
    started_wall_s: float
    """When the run began, in seconds of UTC since 1970 …"""
    started_clock_s: float
    """… and at that same moment on the clock that the records' times are of."""
    clock: ClockName = "monotonic"
    window: Sequence[Sample] = ()
    """What a resumed run took over from the one before it, oldest first."""
    resumed_from: str | None = None
    identity: dict[str, str] | None = None
    """Which bench it was, in named parts; None in files of earlier versions."""
    version: str = __version__
    host: str = ""
    pid: int = 0
    boot_id: str = ""
    """Which boot of the host it was: a monotonic clock says nothing beyond it."""
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
    ) -> RunHeader:
        """The header of a run that this process begins."""
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
        """The run's config; a DataError if this version does not understand it any more."""
        try:
            return stored_config(self.config_json)
        except DataError as error:
            raise DataError(
                f"the run's config does not fit macontrol {__version__}: {error}; "
                f"use macontrol {self.version}, which wrote it"
            ) from None

    @property
    def started(self) -> datetime:
        return datetime.fromtimestamp(self.started_wall_s, UTC)

    def wall_s(self, clock_s: float) -> float:
        """A moment of the run's clock, in seconds of UTC since 1970."""
        return self.started_wall_s + (clock_s - self.started_clock_s)

    def rows(self) -> list[tuple[str, str]]:
        """The header as it is stored: keys and JSON values."""
        survey = self.survey
        values: dict[str, Any] = {
            "started_utc": self.started.isoformat(timespec="microseconds"),
            **{name: getattr(self, name) for name in _PLAIN},
            "window": [[int(s.slot), float(s.position), float(s.reward)] for s in self.window],
            "survey": survey
            and {
                "position": survey.position.tolist(),
                "reward": survey.reward.tolist(),
                "noise_variance": survey.noise_variance,
                "walked_wall_s": survey.walked_wall_s,
            },
        }
        rows = [(key, json.dumps(value)) for key, value in values.items()]
        return [*rows, ("config", self.config_json)]

    @classmethod
    def from_rows(cls, rows: Mapping[str, str]) -> RunHeader:
        """The header from its stored keys; a DataError that says what is wrong with it."""
        if missing := [name for name in _REQUIRED if name not in rows]:
            raise DataError(f"its header has no {missing[0]}")
        _parse("config", rows["config"])
        values = {name: _parse(name, rows[name]) for name in _PLAIN if name in rows}
        if not 0 <= values["seed"] <= LARGEST_SEED:
            raise DataError("its header's seed is not one that a config can have")
        if not 0 <= values["started_wall_s"] < _END_OF_TIME_S:
            raise DataError("its header's started_wall_s is a time that no calendar has")
        if not abs(values["started_clock_s"]) < _END_OF_TIME_S:
            raise DataError("its header's started_clock_s is a time that no clock has")
        survey: _StoredSurvey | None = _parse("survey", rows.get("survey", "null"))
        return cls(
            **values,
            config_json=rows["config"],
            window=_parse("window", rows.get("window", "[]")),
            survey=None if survey is None else survey.restore(),
        )


class _StoredSurvey(BaseModel):
    """A survey as the header stores it."""

    position: list[float]
    reward: list[float]
    noise_variance: float | None = None
    walked_wall_s: float | None = None

    def restore(self) -> Survey:
        return Survey(
            np.array(self.position, float),
            np.array(self.reward, float),
            self.noise_variance,
            self.walked_wall_s,
        )


# The first second of the year 10000.
_END_OF_TIME_S = 253_402_300_800

# The keys whose JSON value is the field's value.
_PLAIN = tuple(
    name
    for name in RunHeader.__dataclass_fields__
    if name not in ("config_json", "window", "survey")
)
_REQUIRED = (
    "config",
    *(name for name in _PLAIN if RunHeader.__dataclass_fields__[name].default is MISSING),
)


def _parse(name: str, text: str) -> Any:
    """The value of a key; a DataError if it is not JSON of the key's type."""
    try:
        return _adapter(name).validate_json(text, strict=True)
    except ValidationError as error:
        raise DataError(f"its header's {name} {_reason(error)}") from None


@cache
def _adapter(name: str) -> TypeAdapter[Any]:
    stored: dict[str, Any] = {
        "config": dict[str, Any],
        "survey": _StoredSurvey | None,
        "window": tuple[Sample, ...],
    }
    return TypeAdapter(stored[name] if name in stored else get_type_hints(RunHeader)[name])


def _reason(error: ValidationError) -> str:
    return f"cannot be understood: {error.errors(include_url=False)[0]['msg'][:200]}"


def this_boot() -> str:
    """Which boot of this machine it is; empty where that cannot be told."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""
