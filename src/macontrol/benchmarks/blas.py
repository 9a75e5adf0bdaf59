"""Which BLAS is at work in this process, held to one thread so that timings compare.

numpy and scipy bring an OpenBLAS each. `macontrol` asks both for one thread before they are
loaded, but a user's own setting is kept; here each is told again, and asked what is in force.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from itertools import product
from pathlib import Path

# OpenBLAS by its own name and as bundled by numpy and scipy, for 32-bit and 64-bit integers.
_PREFIXES = ("scipy_openblas_", "openblas_")
_SUFFIXES = ("", "64_", "_64")


@dataclass(frozen=True)
class Blas:
    """A BLAS library of this process."""

    library: str
    threads: int | None
    """How many threads it works with; None if it does not tell."""


def hold_to_one_thread() -> list[Blas]:
    """Set every BLAS of this process to one thread, and report what each says afterwards."""
    return [Blas(path.name, _hold(path)) for path in _loaded_libraries()]


def _loaded_libraries() -> list[Path]:
    try:
        lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    paths = {Path(line.split(maxsplit=5)[5]) for line in lines if "/" in line}
    # Extension modules that are linked against a BLAS have it in their name, too.
    return sorted(p for p in paths if p.name.startswith("lib") and "blas" in p.name)


def _hold(path: Path) -> int | None:
    try:
        library = ctypes.CDLL(str(path))
    except OSError:
        return None
    for prefix, suffix in product(_PREFIXES, _SUFFIXES):
        get = getattr(library, f"{prefix}get_num_threads{suffix}", None)
        set_ = getattr(library, f"{prefix}set_num_threads{suffix}", None)
        if get is not None and set_ is not None:
            set_(1)
            return int(get())
    return None
