"""The memory of a process."""

from __future__ import annotations

from pathlib import Path


def resident_mb(pid: int) -> float:
    """The resident memory of a running process."""
    for row in Path(f"/proc/{pid}/status").read_text().splitlines():
        if row.startswith("VmRSS:"):
            return int(row.split()[1]) / 1000
    raise AssertionError(f"no process {pid}")
