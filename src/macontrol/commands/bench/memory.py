"""Whether memory grows in a long run.

Two numbers are read in intervals, and reading them allocates nothing: the resident set of the
process, and the number of blocks of Python's allocator.
"""

from __future__ import annotations

import gc
import os
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from macontrol.commands.bench.decisions import (
    Player,
    World,
    differences,
    made_for,
    no_garbage_collection,
)
from macontrol.commands.bench.direct import DirectPosterior
from macontrol.config import Config

READINGS = 100
_STATM = Path("/proc/self/statm")


@dataclass(frozen=True)
class Soak:
    """Memory and numerical error of a long run."""

    slots: int
    seconds: float
    resident_start: int
    """In bytes: the median of the first tenth of the readings."""
    resident_growth: int
    """From the median of the first tenth of the readings to that of the last."""
    resident_peak: int
    blocks_growth: int
    """Blocks of Python's allocator, between the same medians."""
    refactorings: int
    """How often the posterior was computed again because rounding errors had grown."""
    mean_error: float
    """The difference from a direct solve of the last window, in units of sigma_f."""
    variance_error: float
    """The same, in units of sigma_f^2."""


def soak(
    config: Config, world: World, slots: int, *, advance: Callable[[], None] = lambda: None
) -> Soak:
    """Play a number of slots and read the memory `READINGS` times."""
    player = Player(config, world)
    window = config.algorithm.window
    last: deque[tuple[int, float, float]] = deque(maxlen=window)
    resident = np.zeros(READINGS, np.int64)
    blocks = np.zeros(READINGS, np.int64)
    # First the window and the pools of the allocator fill.
    last.extend((turn.slot, turn.position, turn.reward) for turn in player.play(2 * window))
    begin = perf_counter()
    with no_garbage_collection():
        for reading in range(READINGS):
            count = slots * (reading + 1) // READINGS - slots * reading // READINGS
            last.extend((turn.slot, turn.position, turn.reward) for turn in player.play(count))
            gc.collect()
            resident[reading], blocks[reading] = _resident_bytes(), sys.getallocatedblocks()
            advance()
    seconds = perf_counter() - begin
    direct = made_for(config, world, DirectPosterior)
    for sample in last:
        direct.observe(*sample)
    errors = differences(player.policy.posterior, direct, world.survey.sigma_f2(config))
    start, end = _ends(resident)
    blocks_start, blocks_end = _ends(blocks)
    return Soak(
        slots=slots,
        seconds=seconds,
        resident_start=start,
        resident_growth=end - start,
        resident_peak=int(resident.max()),
        blocks_growth=blocks_end - blocks_start,
        refactorings=getattr(player.policy.posterior, "refactorings", 0),
        mean_error=errors[0],
        variance_error=errors[1],
    )


def _resident_bytes() -> int:
    return int(_STATM.read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _ends(readings: NDArray[np.int64]) -> tuple[int, int]:
    tenth = len(readings) // 10
    return int(np.median(readings[:tenth])), int(np.median(readings[-tenth:]))
