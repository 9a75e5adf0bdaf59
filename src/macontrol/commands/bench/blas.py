"""The BLAS libraries of this process, set to one thread so that times are comparable.

numpy and scipy each bring an OpenBLAS. `macontrol` requests one thread before they are loaded,
unless the user has set another number; a benchmark sets one thread in any case.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from itertools import product
from pathlib import Path

# The names in OpenBLAS itself and as bundled by numpy and scipy, for 32-bit and 64-bit integers.
_PREFIXES = ("scipy_openblas_", "openblas_")
_SUFFIXES = ("", "64_", "_64")


@dataclass(frozen=True)
class Blas:
    """A BLAS library of this process."""

    library: str
    threads: int | None
    """The number of its threads; None if unknown."""


def use_one_thread() -> list[Blas]:
    """Set every BLAS of this process to one thread; report the number that each has then."""
    return [Blas(path.name, _set_one_thread(path)) for path in _loaded_libraries()]


def _loaded_libraries() -> list[Path]:
    try:
        lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    paths = {Path(line.split(maxsplit=5)[5]) for line in lines if "/" in line}
    # Extension modules for a BLAS also have it in their name, but do not begin with lib.
    return sorted(p for p in paths if p.name.startswith("lib") and "blas" in p.name)


def _set_one_thread(path: Path) -> int | None:
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
