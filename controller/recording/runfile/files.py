"""Folders and names of run files; an earlier run is never overwritten."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path

from macontrol.config.files.atomic_file import regular_target
from macontrol.config.model.errors import DataError, InputOutputError
from macontrol.controller.recording.runfile.lock import NOT_THERE, FileLock, failed
from macontrol.controller.recording.runfile.schema import SAMPLES, beside, is_run_start

SUFFIX = ".sqlite"
_LONGEST_STEM = 120  # a file name has at most 255 characters, and some are for the date


def default_run_folder() -> Path:
    """The default folder of run files: the service's state folder, or the user's."""
    if service := os.environ.get("STATE_DIRECTORY", "").split(":")[0]:
        return Path(service)
    # By the XDG specification, a relative path is ignored.
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    return (state if state.is_absolute() else _home() / ".local" / "state") / "macontrol"


def _home() -> Path:
    """The user's home folder; the root folder for a user without one, as in a container."""
    home = Path(os.path.expanduser("~"))
    return home if home.is_absolute() else Path("/")


def new_run_path(folder: Path, stage: str, started_wall_s: float) -> Path:
    """A name for a run that begins now; the folder is created if necessary."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise failed(folder, error) from error
    return _unused(folder / f"{file_stem(stage)}{SUFFIX}", _stamp(started_wall_s))


def runs_in(folder: Path, stage: str) -> list[Path]:
    """The run files in a folder that are named after a stage, the newest first."""
    return _stamped(folder / f"{file_stem(stage)}{SUFFIX}")


def runs_named(path: Path) -> list[Path]:
    """The run file of this name, then those that were renamed from it, newest first."""
    found = [path] if os.path.isfile(path) else []
    return found + _stamped(path)


def _stamped(path: Path) -> list[Path]:
    """The files with a name of `_names`, the newest first."""
    name = re.compile(rf"{re.escape(path.stem)}-\d{{8}}T\d{{6}}Z(-\d+)?{re.escape(path.suffix)}")
    try:
        found = [file for file in path.parent.iterdir() if name.fullmatch(file.name)]
    except OSError:
        return []
    return sorted(found, key=last_written, reverse=True)


def set_aside(path: Path | str) -> Path | None:
    """Make this name free for a new run: rename an earlier run after its start time.

    Return its new name; None if there was no file. InputOutputError if a run is being recorded
    there, or if the file is not a run file.
    """
    path = regular_target(Path(path), NOT_THERE)
    while True:
        try:
            lock = FileLock(path)
        except FileNotFoundError:
            return None
        except BlockingIOError:
            raise InputOutputError(
                f"{path}: is being written by {_holder(path)}",
                "stop that program, or choose another file",
            ) from None
        except OSError as error:
            raise failed(path, error) from error
        try:
            if lock.is_of(path):
                return _rename(path, lock)
        finally:
            lock.release()


def _rename(path: Path, lock: FileLock) -> Path | None:
    try:
        start = os.pread(lock.descriptor, 100, 0)
    except OSError as error:
        raise failed(path, error) from error
    if not start:
        path.unlink()
        return None
    if not is_run_start(start):
        raise InputOutputError(
            f"{path}: the file exists and is not a run file", "choose another name"
        )
    _fold_log(path)
    from macontrol.controller.recording.runfile.reader import OpenRun  # needs NumPy

    try:
        with OpenRun(path) as run:
            started = run.header.started_wall_s
    except (DataError, InputOutputError):  # damaged, or of a newer version
        started = path.stat().st_mtime
    target = _unused(path, _stamp(started))
    try:
        # A log that could not be copied is renamed first: otherwise SQLite would use it as the log
        # of the new file.
        for end in ("-wal", ""):
            with suppress(FileNotFoundError):
                beside(path, end).rename(beside(target, end))
        for end in SAMPLES:
            with suppress(FileNotFoundError):
                path.with_suffix(end).rename(target.with_suffix(end))
        with suppress(FileNotFoundError):
            beside(path, "-shm").unlink()
    except OSError as error:
        raise failed(path, error) from error
    return target


def _fold_log(path: Path) -> None:
    """Copy the log that a killed run left into its file, if the disk allows it."""
    if beside(path, "-wal").exists():
        with (
            suppress(sqlite3.Error, UnicodeDecodeError),
            closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=rw", uri=True)) as connection,
        ):
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _holder(path: Path) -> str:
    from macontrol.controller.recording.runfile.reader import OpenRun  # needs NumPy

    try:
        with OpenRun(path) as run:
            return f"macontrol with process id {run.header.pid} on {run.header.host}"
    except (DataError, InputOutputError):
        return "another program"


def file_stem(stage: str) -> str:
    """A stage's name for file names, such as "dev-ttyUSB0"; the end of a long name."""
    plain = re.sub(r"[^A-Za-z0-9._]+", "-", stage)
    return plain[-_LONGEST_STEM:].strip("-.") or "run"


def _stamp(wall_s: float) -> str:
    return f"{datetime.fromtimestamp(wall_s, UTC):%Y%m%dT%H%M%SZ}"


def _unused(path: Path, stamp: str) -> Path:
    """`name-stamp.ext`, with a number if that exists."""
    return next(name for name in _names(path, stamp) if not name.exists())


def _names(path: Path, stamp: str) -> Iterator[Path]:
    yield path.with_name(f"{path.stem}-{stamp}{path.suffix}")
    number = 2
    while True:
        yield path.with_name(f"{path.stem}-{stamp}-{number}{path.suffix}")
        number += 1


def last_written(path: Path) -> float:
    """When a run file or its log was last written, in seconds of UTC since 1970; 0 if unknown."""
    times = [0.0]
    for file in (path, beside(path, "-wal")):
        with suppress(OSError):
            times.append(file.stat().st_mtime)
    return max(times)
