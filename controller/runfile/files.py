"""Where run files lie and what they are called; an earlier run is never overwritten."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path

from macontrol.config.errors import DataError, InputOutputError
from macontrol.controller.runfile.lock import FileLock, failed
from macontrol.controller.runfile.reader import OpenRun
from macontrol.controller.runfile.schema import APPLICATION_ID

SUFFIX = ".sqlite"


def default_run_folder() -> Path:
    """Where runs go if nobody says: the service's state folder, or the user's."""
    if service := os.environ.get("STATE_DIRECTORY", "").split(":")[0]:
        return Path(service)
    # The convention has it that a relative path is to be ignored.
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    return (state if state.is_absolute() else Path.home() / ".local" / "state") / "macontrol"


def new_run_path(folder: Path, stage: str, started_wall_s: float) -> Path:
    """A name for a run that begins now, in a folder that is made if need be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise failed(folder, error) from error
    return _unused(folder / f"{file_stem(stage)}{SUFFIX}", _stamp(started_wall_s))


def latest_run(folder: Path, stage: str) -> Path | None:
    """The run of this stage that was written last, if the folder holds any that can be read."""
    try:
        found = list(folder.glob(f"{file_stem(stage)}-*{SUFFIX}"))
    except OSError:
        return None
    for path in sorted(found, key=_last_written, reverse=True):
        with suppress(DataError, InputOutputError), OpenRun(path) as run:
            if run.header.stage == stage:
                return path
    return None


def set_aside(path: Path | str) -> Path | None:
    """Free this name for a new run: an earlier run there is renamed, beside it, by its start.

    Returns its new name; None if there was nothing. Refused if a run is being written there, or
    if what is there is not a run file.
    """
    path = Path(path)
    while True:
        try:
            lock = FileLock(path)
        except FileNotFoundError:
            return None
        except BlockingIOError:
            raise InputOutputError(_held(path)) from None
        except OSError as error:
            raise failed(path, error) from error
        try:
            if lock.is_of(path):
                return _rename(path, lock)
        finally:
            lock.release()


def _rename(path: Path, lock: FileLock) -> Path | None:
    start = os.pread(lock.descriptor, 100, 0)
    if not start:
        path.unlink()
        return None
    if start[:16] != b"SQLite format 3\0" or start[68:72] != APPLICATION_ID.to_bytes(4, "big"):
        raise InputOutputError(
            f"{path}: there is a file already that is not a run file; choose another name"
        )
    _fold_log(path)
    try:
        with OpenRun(path) as run:
            started = run.header.started_wall_s
    except (DataError, InputOutputError):  # damaged, or of a version to come: kept all the same
        started = path.stat().st_mtime
    target = _unused(path, _stamp(started))
    try:
        # A log that could not be folded in goes first: without its file it is found again by hand,
        # while SQLite would take it for the log of the new file.
        for end in ("-wal", ""):
            with suppress(FileNotFoundError):
                path.with_name(path.name + end).rename(target.with_name(target.name + end))
        with suppress(FileNotFoundError):
            path.with_name(path.name + "-shm").unlink()
    except OSError as error:
        raise failed(path, error) from error
    return target


def _fold_log(path: Path) -> None:
    """Copy the log that a killed run left into its file, if there is one and the disk lets us."""
    if path.with_name(path.name + "-wal").exists():
        with (
            suppress(sqlite3.Error, UnicodeDecodeError),
            closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=rw", uri=True)) as connection,
        ):
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _held(path: Path) -> str:
    try:
        with OpenRun(path) as run:
            holder = f"macontrol with process id {run.header.pid} on {run.header.host}"
    except (DataError, InputOutputError):
        holder = "another program"
    return f"{path}: is being written by {holder}; stop that one, or choose another file"


def file_stem(stage: str) -> str:
    """A stage's name as a part of a file's, as in "dev-ttyUSB0"."""
    return re.sub(r"[^A-Za-z0-9._]+", "-", stage).strip("-.") or "run"


def _stamp(wall_s: float) -> str:
    return f"{datetime.fromtimestamp(wall_s, UTC):%Y%m%dT%H%M%SZ}"


def _unused(path: Path, stamp: str) -> Path:
    """`name-stamp.ext`, with a number if that is taken."""
    return next(name for name in _names(path, stamp) if not name.exists())


def _names(path: Path, stamp: str) -> Iterator[Path]:
    yield path.with_name(f"{path.stem}-{stamp}{path.suffix}")
    number = 2
    while True:
        yield path.with_name(f"{path.stem}-{stamp}-{number}{path.suffix}")
        number += 1


def _last_written(path: Path) -> float:
    times = [0.0]
    for file in (path, path.with_name(path.name + "-wal")):
        with suppress(OSError):
            times.append(file.stat().st_mtime)
    return max(times)
