"""The list of recorded runs: what each was, and how it went, without reading all of its columns."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np

from macontrol.config.model.errors import DataError, InputOutputError, NoInputError
from macontrol.controller.recording.runfile import OpenRun, default_run_folder
from macontrol.controller.recording.runfile.retention import (
    StoredRun,
    is_being_written,
    stored_runs,
)
from macontrol.reports.recorded import FAULTS, State, check_slots, plausible, state_of
from macontrol.reports.world import HOW_KNOWN, WORLD_COLUMNS, World, world_of

MOST_SLOTS = 100_000
"""The gain of a longer run is left to `macontrol report`: it takes a second per 100 000 slots."""


@dataclass(frozen=True)
class RunLine:
    """One run of the list. Positions in wavelengths, times in seconds."""

    file: str
    size_bytes: int
    problem: str | None = None
    """Why the file cannot be read; the other fields are then empty."""
    state: State | None = None
    started: datetime | None = None
    backend: str | None = None
    bench: str | None = None
    policy: str | None = None
    slots: int = 0
    duration_s: float = 0.0
    mean_reward: float | None = None
    gain_over_fixed: float | None = None
    """How much more it earned than an antenna fixed at x_0, as a share."""
    gain_known_from: str | None = None
    gain_unknown_because: str | None = None
    travel: float = 0.0
    faults: int = 0
    """Events that are faults of stage, probe or policy, refused commands, or lost signals."""


def run_files(places: Iterable[Path]) -> list[StoredRun]:
    """The run files at these places, newest first: files, or folders without their subfolders.

    What else is in a folder is left out. A file that is not a run file is refused.
    """
    paths: dict[Path, None] = {}
    for place in places:
        if os.path.isdir(place):  # false for an impossible name, too
            try:
                paths |= dict.fromkeys(path for path in place.iterdir() if not path.is_symlink())
            except OSError as error:
                raise InputOutputError(
                    f"{place}: cannot be listed: {error.strerror}", "choose another folder"
                ) from error
        else:
            with_header(place)
            paths[place] = None
    return stored_runs(paths)


def with_header(path: Path) -> None:
    """Refuse a file that is not a run file; a damaged run file passes."""
    try:
        OpenRun(path).close()
    except DataError:
        if not stored_runs([path]):
            raise


def lines_of(runs: Sequence[StoredRun]) -> list[RunLine]:
    """Read what the list shows of each run."""
    return [line_of(run) for run in runs]


def line_of(stored: StoredRun) -> RunLine:
    """Read what the list shows of a run; a damaged one has a problem instead."""
    is_running = is_being_written(stored.path)
    try:
        with OpenRun(stored.path) as run:
            return _read(stored, run, is_running=is_running)
    except (DataError, InputOutputError) as error:
        return RunLine(str(stored.path), stored.size_bytes, problem=error.detail)


def _read(stored: StoredRun, run: OpenRun, *, is_running: bool) -> RunLine:
    header, config = run.header, run.header.config
    kinds = [event.kind for event in run.events()]
    check_slots(run)
    columns = {name: plausible(found) for name, found in run.columns(WORLD_COLUMNS).items()}
    position, reward = columns["position"], columns["reward"]
    world = world_of(config, header.backend, header.seed, columns, MOST_SLOTS)
    known = reward[np.isfinite(reward)]
    span = run.last_slot - run.first_slot + 1 if run.count else 0
    is_known = isinstance(world, World)
    return RunLine(
        file=str(stored.path),
        size_bytes=stored.size_bytes,
        state=state_of(kinds, is_running=is_running),
        started=header.started,
        backend=header.backend,
        bench=header.stage,
        policy=header.policy,
        slots=run.count,
        duration_s=span * config.physical.slot_duration_s,
        mean_reward=float(known.mean()) if len(known) else None,
        gain_over_fixed=world.gain if isinstance(world, World) else None,
        gain_known_from=HOW_KNOWN if is_known else None,
        gain_unknown_because=None if isinstance(world, World) else world,
        travel=float(np.nansum(np.abs(np.diff(position)))),
        faults=sum(kind in FAULTS for kind in kinds),
    )


def newest_run() -> Path:
    """The newest run in the state folder; NoInputError without one."""
    folder = default_run_folder()
    found = run_files([folder] if folder.is_dir() else [])
    if not found:
        raise NoInputError(f"{folder}: there is no recorded run", "give the path of a run file")
    return found[0].path
