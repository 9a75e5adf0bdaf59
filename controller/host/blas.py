"""The BLAS libraries of this process, and how many threads they use.

numpy and scipy each bring an OpenBLAS. `macontrol` requests one thread before they are loaded,
unless the user has set another number.
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


def loaded_blas(*, use_one_thread: bool = False) -> list[Blas]:
    """Every BLAS of this process; with `use_one_thread` it is set to one thread before."""
    try:
        lines = Path("/proc/self/maps").read_text("utf-8", "replace").splitlines()
    except OSError:
        return []
    paths = {Path(line.split(maxsplit=5)[5]) for line in lines if "/" in line}
    # Extension modules for a BLAS also have it in their name, but do not begin with lib.
    found = sorted(p for p in paths if p.name.startswith("lib") and "blas" in p.name)
    return [Blas(path.name, _threads(path, use_one_thread)) for path in found]


def _threads(path: Path, use_one_thread: bool) -> int | None:
    try:
        library = ctypes.CDLL(str(path))
    except OSError:
        return None
    for prefix, suffix in product(_PREFIXES, _SUFFIXES):
        get = getattr(library, f"{prefix}get_num_threads{suffix}", None)
        set_ = getattr(library, f"{prefix}set_num_threads{suffix}", None)
        if get is not None and set_ is not None:
            if use_one_thread:
                set_(1)
            return int(get())
    return None
