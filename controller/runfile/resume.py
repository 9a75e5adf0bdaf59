"""Warm restart: a run goes on with the window of the last one, if that is still fresh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from macontrol.config import Config
from macontrol.config.errors import DataError, InputOutputError
from macontrol.controller.runfile.header import RunHeader, Sample, this_boot
from macontrol.controller.runfile.reader import OpenRun
from macontrol.controller.survey import Survey

# No time (s) and no place (wavelengths) of a run is farther off.
_FAR = 1e15


@dataclass(frozen=True, eq=False)
class Resume:
    """What a run needs to go on where another one ended. Positions in wavelengths."""

    path: Path
    header: RunHeader
    survey: Survey
    sigma_f2: float | None
    samples: Sequence[Sample]
    """The window: the last w slots with a reward, oldest first; fewer in a young run."""
    last_slot: int
    last_wall_s: float
    """When the last slot began, in seconds of UTC since 1970."""
    age_s: float
    position: float
    """Where the antenna was in the last slot …"""
    next_position: float
    """… where it was sent from there …"""
    target: float
    """… and where it was headed."""


@dataclass(frozen=True)
class NoResume:
    """Why a run has to begin with a survey."""

    reason: str


def find_resume(
    path: Path | str,
    config: Config,
    now_wall_s: float,
    *,
    now_clock_s: float | None = None,
    stage: str | None = None,
) -> Resume | NoResume:
    """Look whether a run can be taken up: same config, same stage, younger than w slots.

    Given the monotonic clock too, the age holds through steps of the wall clock within one boot.
    """
    path = Path(path)
    try:
        with OpenRun(path) as run:
            header, row = run.header, run.last_row()
            if stage is not None and header.stage != stage:
                return NoResume(f"{path}: the last run was of another stage, {header.stage}")
            if header.config != config:
                return NoResume(f"{path}: the last run had another config")
            if header.survey is None or row is None:
                return NoResume(f"{path}: the last run ended before its first slot was recorded")
            samples = run.last_samples(config.algorithm.window)
            first = next(run.rows(("slot", "start_s")), (0, None))
            if flaw := _flaw(config, header, header.survey, samples, first, row):
                return NoResume(f"{path}: the last run cannot be gone on with: {flaw}")
            wall_s = header.wall_s(row["start_s"])
            ages = [now_wall_s - wall_s]
            if now_clock_s is not None and header.boot_id and header.boot_id == this_boot():
                # A wall clock that was set back, and a monotonic one that stood still while the
                # machine slept, make a run look younger than it is: the older age holds.
                ages.append(now_clock_s - row["start_s"])
            age_s, fresh_s = max(ages), config.algorithm.window * config.physical.slot_duration_s
            if age_s < 0:
                return NoResume(
                    f"{path}: the last run ended {-age_s:.1f} s in the future: the clock was set"
                )
            if age_s >= fresh_s:
                return NoResume(
                    f"{path}: the last slot is {age_s:.1f} s old, and after {fresh_s:g} s "
                    "(w slots) it says nothing any more"
                )
            return Resume(
                path=path,
                header=header,
                survey=header.survey,
                sigma_f2=header.sigma_f2,
                samples=samples,
                last_slot=row["slot"],
                last_wall_s=wall_s,
                age_s=age_s,
                position=row["position"],
                next_position=row["next_position"],
                target=row["target"],
            )
    except (DataError, InputOutputError) as error:
        return NoResume(str(error))


def _flaw(
    config: Config,
    header: RunHeader,
    survey: Survey,
    samples: Sequence[Sample],
    first: tuple[Any, ...],
    last: Mapping[str, Any],
) -> str | None:
    """What no run can have written, if the file holds such a thing: SQLite keeps any bytes."""
    length, slot_s = config.physical.region_length, config.physical.slot_duration_s
    if not survey.can_be(config):
        return "its survey is none of this rail"
    if not all(_is_within(last[name], -_FAR, _FAR) for name in ("start_s", "position")):
        return "its last slot has no time or no place"
    if not all(_is_within(last[name], 0, length) for name in ("next_position", "target")):
        return "its last slot leads off the rail"
    # Slots are numbered by time, and there have not been more of them than there was time.
    (first_slot, first_start_s), slot = first, last["slot"]
    if not _is_within(first_start_s, -_FAR, _FAR) or not (
        abs((last["start_s"] - first_start_s) / slot_s - (slot - first_slot)) < 0.5
        and (slot - 1) * slot_s <= header.wall_s(last["start_s"])
    ):
        return f"slot {slot} is not at its time"
    numbers = [sample.slot for sample in samples]
    if not all(isinstance(number, int) for number in numbers) or any(
        later <= earlier for earlier, later in pairwise([0, *numbers, slot + 1])
    ):
        return "its slots are not in order"
    for sample in samples:
        if not _is_within(sample.position, 0, length):
            return f"the antenna was off the rail in slot {sample.slot}"
        if not _is_within(sample.reward, -config.largest_reward, config.largest_reward):
            return f"the reward of slot {sample.slot} is none"
    return None


def _is_within(value: object, low: float, high: float) -> bool:
    return isinstance(value, int | float) and low <= value <= high
