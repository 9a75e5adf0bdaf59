"""Free disk space: recording stops before the file system is full."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from math import inf
from pathlib import Path

_CHECK_INTERVAL_S = 1.0
# Free space varies: writing continues once there is this much more than the floor.
_ENOUGH = 1.05


def free_mb(path: Path) -> float:
    """The space (MB) available to this user on the file system of a file or its folder.

    Infinite for a stream, which takes no space: a pipe's file system is always full.
    """
    while not path.exists() and path != path.parent:
        path = path.parent
    if not (path.is_file() or path.is_dir()):
        return inf
    status = os.statvfs(path)
    return status.f_bavail * status.f_frsize / 1e6


class FreeSpace:
    """Whether a file may grow: its file system has more free space than a floor."""

    def __init__(
        self,
        path: Path,
        floor_mb: float,
        *,
        measure: Callable[[Path], float] = free_mb,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._floor_mb = floor_mb
        self._measure = measure
        self._now = now
        self._checked_s = float("-inf")
        self._shortage: str | None = None

    def shortage(self) -> str | None:
        """Why the file may not grow now; None if it may. Measures at most once per second."""
        if self._floor_mb > 0 and self._now() - self._checked_s >= _CHECK_INTERVAL_S:
            self._checked_s = self._now()
            self._shortage = self._check()
        return self._shortage

    def _check(self) -> str | None:
        try:
            free = self._measure(self._path)
        except OSError:  # the writer reports the error
            return None
        floor = self._floor_mb * (1.0 if self._shortage is None else _ENOUGH)
        if free >= floor:
            return None
        return (
            f"only {free:.0f} MB are free on its disk, and run.free_space_floor_mb = "
            f"{self._floor_mb:g} MB stay free; free some space, or lower that setting"
        )
