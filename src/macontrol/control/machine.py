"""The state of this computer for a snapshot: load, temperature, disk. Read once per second."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

_EVERY_S = 1.0
_THERMAL = Path("/sys/class/thermal")
_MEGABYTE = 1e6


class Machine:
    """Reads the state at most once per `_EVERY_S`."""

    def __init__(self) -> None:
        self._state: dict[str, Any] = {}
        self._read_s = -_EVERY_S

    def state(self, run_file: str | None) -> dict[str, Any]:
        """The state now; the disk is that of the run file."""
        now = time.monotonic()
        if now - self._read_s >= _EVERY_S:
            self._read_s = now
            self._state = {
                "load": _load(),
                "cpus": os.cpu_count(),
                "temperature_c": _temperature_c(),
                **_disk(run_file),
            }
        return self._state


def _load() -> list[float] | None:
    """The load averages; None where a service may not see them (ProcSubset=pid)."""
    try:
        return list(os.getloadavg())
    except OSError:
        return None


def _temperature_c() -> float | None:
    """The highest temperature of the processor's zones; None without a sensor."""
    found = []
    for file in _THERMAL.glob("thermal_zone*/temp"):
        try:
            found.append(int(file.read_text()) / 1000)
        except (OSError, ValueError):
            continue
    return max(found, default=None)


def _disk(run_file: str | None) -> dict[str, float | None]:
    unknown = {"disk_free_mb": None, "disk_total_mb": None}
    if run_file is None:
        return dict(unknown)
    try:
        disk = os.statvfs(run_file)
    except OSError:
        return dict(unknown)
    return {
        "disk_free_mb": disk.f_bavail * disk.f_frsize / _MEGABYTE,
        "disk_total_mb": disk.f_blocks * disk.f_frsize / _MEGABYTE,
    }
