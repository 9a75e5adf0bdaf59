"""Warm restart: a run continues with the window of the last one, if that is still fresh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from macontrol.config import Config
from macontrol.config.model.errors import DataError, InputOutputError
from macontrol.config.model.reward import reward_of
from macontrol.config.model.units import from_db
from macontrol.controller.recording.records import EventKind
from macontrol.controller.recording.runfile.files import last_written
from macontrol.controller.recording.runfile.header import RunHeader, Sample, this_boot
from macontrol.controller.recording.runfile.reader import OpenRun
from macontrol.controller.survey.samples import Survey

# No time (s) and no position (wavelengths) of a run is larger.
_FAR = 1e15
# A power that is above the noise floor by less than this and the floor's drift may be noise.
_FLOOR_DB = 1.0


@dataclass(frozen=True, eq=False)
class Resume:
    """What a run needs to continue an earlier one. Positions in wavelengths."""

    path: Path
    header: RunHeader
    survey: Survey
    """The last one, before slot 1 or within the run."""
    samples: Sequence[Sample]
    """The window: the last w slots with a reward, oldest first; fewer after a short run."""
    last_slot: int
    last_wall_s: float
    """When the last slot began, in seconds of UTC since 1970."""
    age_s: float
    position: float
    """The antenna's position in the last slot …"""
    next_position: float
    """… the next one, as decided …"""
    target: float
    """… and its target."""
    noise_floor_dbfs: float | None = None
    """The noise floor of the rewards; None if the probe has none."""


@dataclass(frozen=True)
class NoResume:
    """Why a run file is not continued."""

    reason: str
    look_back: bool = False
    """Whether the file has no readable slot, so that the run before it may be fresh."""


def find_resume_among(
    paths: Sequence[Path],
    config: Config,
    now_wall_s: float,
    *,
    now_clock_s: float | None = None,
    stage: str,
    backend: str,
) -> Resume | NoResume | None:
    """The run to continue among these files, newest first; None if there are no files.

    A run that ended before its first slot, or whose file is damaged, does not hide the run before
    it while that is fresh. The reason is that of the newest file.
    """
    first: NoResume | None = None
    for path in paths:
        if first is not None and now_wall_s - last_written(path) >= config.window_s:
            break
        found = find_resume(
            path, config, now_wall_s, now_clock_s=now_clock_s, stage=stage, backend=backend
        )
        if isinstance(found, Resume):
            return found
        first = first or found
        if not found.look_back:
            break
    return first


def find_resume(
    path: Path | str,
    config: Config,
    now_wall_s: float,
    *,
    now_clock_s: float | None = None,
    stage: str | None = None,
    backend: str | None = None,
) -> Resume | NoResume:
    """Check whether a run can be continued: same config, same stage, newer than w slots.

    With the monotonic clock too, the age is right after steps of the wall clock within one boot.
    This never raises, whatever the file contains.
    """
    path = Path(path)
    try:
        with OpenRun(path) as run:
            return _resume_of(
                run, config, now_wall_s, now_clock_s=now_clock_s, stage=stage, backend=backend
            )
    except (DataError, InputOutputError) as error:
        return NoResume(str(error), look_back=True)


def _resume_of(
    run: OpenRun,
    config: Config,
    now_wall_s: float,
    *,
    now_clock_s: float | None,
    stage: str | None,
    backend: str | None,
) -> Resume | NoResume:
    path, header, row = run.path, run.header, run.last_row()
    survey, surveyed = header.survey, 0
    if header.resurvey is not None:
        surveyed, survey = header.resurvey
    if survey is None or row is None:
        return NoResume(
            f"{path}: the last run ended before its first slot was recorded", look_back=True
        )
    if stage is not None and header.stage != stage:
        return NoResume(f"{path}: the last run was of another stage, {header.stage}")
    if backend is not None and header.backend != backend:
        return NoResume(f"{path}: the last run was of another backend, {header.backend}")
    if header.identity is None:
        return NoResume(f"{path}: the last run has no identity of its bench")
    if header.config != config:
        return NoResume(f"{path}: the last run had another config")
    samples = run.last_samples(config.algorithm.window)
    first = next(run.rows(("slot", "start_s")), (0, None))
    if flaw := _flaw(config, header, survey, samples, first, row):
        return NoResume(f"{path}: the last run cannot be continued: {flaw}", look_back=True)
    # What the walk of a survey within the run measured is in that survey.
    samples = [sample for sample in samples if sample.slot > surveyed]
    wall_s = header.wall_s(row["start_s"])
    ages = [now_wall_s - wall_s]
    if now_clock_s is not None and header.boot_id and header.boot_id == this_boot():
        # A wall clock that was set back, and a monotonic one that stopped while the machine slept,
        # make a run look newer than it is: the higher age counts.
        ages.append(now_clock_s - row["start_s"])
    age_s, fresh_s = max(ages), config.window_s
    if age_s < 0:
        return NoResume(
            f"{path}: the last run ended {-age_s:.1f} s in the future: the clock was changed"
        )
    if age_s >= fresh_s:
        return NoResume(
            f"{path}: the last slot is {age_s:.1f} s old, and the window is {fresh_s:g} s (w slots)"
        )
    return Resume(
        path=path,
        header=header,
        survey=survey,
        samples=_proven(config, samples) if header.backend == "serial" else samples,
        last_slot=row["slot"],
        last_wall_s=wall_s,
        age_s=age_s,
        position=row["position"],
        next_position=row["next_position"],
        target=row["target"],
        noise_floor_dbfs=_noise_floor(run),
    )


def _noise_floor(run: OpenRun) -> float | None:
    found = run.last_value(EventKind.NOISE_FLOOR)
    return float(found) if isinstance(found, int | float) and -200 <= found <= 0 else None


def _proven(config: Config, samples: Sequence[Sample]) -> Sequence[Sample]:
    """The samples without those that may be the beginning of a loss of signal.

    A run that is killed between the first slot at the noise floor and the detection of the loss
    has not withdrawn them, nor the slot in which the signal ended.
    """
    slots = config.probe.no_signal_slots
    above_floor = from_db(_FLOOR_DB + config.probe.floor_drift_db)
    at_floor = reward_of(config.physical.transmission_share, above_floor - 1.0)
    if slots == "off" or not samples or samples[-1].reward >= at_floor:
        return samples
    return samples[:-slots]


def _flaw(
    config: Config,
    header: RunHeader,
    survey: Survey,
    samples: Sequence[Sample],
    first: tuple[Any, ...],
    last: Mapping[str, Any],
) -> str | None:
    """What is wrong with the file, if a run cannot have written it: it may contain anything."""
    length, slot_s = config.physical.region_length, config.physical.slot_duration_s
    if not survey.can_be(config):
        return "its survey does not fit this rail"
    if not all(_is_within(last[name], -_FAR, _FAR) for name in ("start_s", "position")):
        return "its last slot has no time or no position"
    if not all(_is_within(last[name], 0, length) for name in ("next_position", "target")):
        return "its last slot has a target off the rail"
    # Slots are numbered by time, and there cannot be more of them than time.
    (first_slot, first_start_s), slot = first, last["slot"]
    if not isinstance(first_slot, int) or not isinstance(slot, int):
        return "its slots have no numbers"
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
            return f"the reward of slot {sample.slot} is out of range"
    return None


def _is_within(value: object, low: float, high: float) -> bool:
    return isinstance(value, int | float) and low <= value <= high
