"""Which run files are kept, and the removal of the others.

A run that is being written is never removed: its writer holds the lock of its file. Nor is a file
that is not a run file, or a link to one.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from typing import NamedTuple

from macontrol.config.model.errors import InputOutputError, reason_of
from macontrol.config.sections.run import Run as RunSettings
from macontrol.controller.recording.runfile.files import last_written
from macontrol.controller.recording.runfile.lock import FileLock
from macontrol.controller.recording.runfile.schema import files_of, is_run_start

_DAY_S = 86400.0
_MB = 1e6


@dataclass(frozen=True)
class Keep:
    """Which runs to keep; None: all of them."""

    runs: int | None = None
    """The newest ones, up to this number."""
    days: float | None = None
    """Those that were last written within this time."""
    mb: float | None = None
    """The newest ones, up to this size together."""

    @classmethod
    def of(cls, settings: RunSettings) -> Keep:
        """What the table `[run]` of a config asks for."""
        runs, days, mb = settings.keep_runs, settings.keep_days, settings.keep_mb
        return cls(
            None if runs == "all" else runs,
            None if days == "all" else days,
            None if mb == "all" else mb,
        )

    @property
    def is_all(self) -> bool:
        return self.runs is self.days is self.mb is None


class StoredRun(NamedTuple):
    """A run file and the files that belong to it."""

    path: Path
    size_bytes: int
    last_written_s: float
    """In seconds of UTC since 1970."""


def stored_runs(paths: Iterable[Path]) -> list[StoredRun]:
    """The run files among these paths, the newest first; their content is not read."""
    found = [
        StoredRun(path, sum(map(_size, files_of(path))), last_written(path))
        for path in paths
        if is_run_file(path)
    ]
    return sorted(found, key=lambda run: run.last_written_s, reverse=True)


def surplus(runs: Sequence[StoredRun], keep: Keep, now_wall_s: float) -> list[StoredRun]:
    """The runs that are not kept, the newest first, of runs in that order."""
    found, size = [], 0
    for number, run in enumerate(runs, start=1):
        size += run.size_bytes
        is_kept = (
            (keep.runs is None or number <= keep.runs)
            and (keep.days is None or now_wall_s - run.last_written_s <= keep.days * _DAY_S)
            and (keep.mb is None or size <= keep.mb * _MB)
        )
        if not is_kept:
            found.append(run)
    return found


def remove_run(path: Path) -> bool:
    """Remove a run and what belongs to it; return whether it was removed.

    A run that is being written is not, nor what is not a run file. InputOutputError if that fails.
    """
    try:
        if path.is_symlink() or not is_run_file(path):
            return False
        lock = FileLock(path)
    except (BlockingIOError, FileNotFoundError):
        return False
    except OSError as error:
        raise _failed(path, error) from error
    try:
        if not lock.is_of(path):
            return False
        # The run file is last: without it nobody would know what the others belong to.
        for file in files_of(path):
            file.unlink(missing_ok=True)
    except OSError as error:
        raise _failed(path, error) from error
    finally:
        lock.release()
    return True


def is_run_file(path: Path) -> bool:
    """Whether a regular file begins as a run file does; false if that cannot be read."""
    try:
        if not S_ISREG(path.stat().st_mode):
            return False
        with path.open("rb") as file:
            return is_run_start(file.read(100))
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return False


def is_being_written(path: Path) -> bool:
    """Whether a process has the lock of a run file; false if that cannot be known."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError):
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _failed(path: Path, error: OSError) -> InputOutputError:
    return InputOutputError(
        f"{path}: cannot be removed: {reason_of(error)}", "remove it as its owner"
    )
