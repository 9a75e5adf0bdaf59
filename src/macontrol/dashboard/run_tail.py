"""Follows the run file of a daemon: the newest samples, and histograms of its durations."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path

from macontrol.dashboard.run_reader import RunReader

SAMPLES = 80
BUCKETS_S = (1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 0.1, 1.0)
_COLUMNS = "slot, position, reward, wake_s, decide_s"


@dataclass
class Histogram:
    """Counts of durations up to each limit of BUCKETS_S, and their sum."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))
    total_s: float = 0.0

    def add(self, seconds: object) -> None:
        if isinstance(seconds, float) and isfinite(seconds):
            self.counts[bisect_left(BUCKETS_S, seconds)] += 1
            self.total_s += seconds


class RunTail:
    """Reads what is new in the run file of a daemon. Blocks: call `read` beside the event loop."""

    def __init__(self) -> None:
        self.path: Path | None = None
        self.samples: deque[tuple[int, float, float]] = deque(maxlen=SAMPLES)
        self.wake = Histogram()
        self.decide = Histogram()
        self._last = 0

    def follow(self, path: Path | None) -> None:
        """Follow this file from its end; the histograms continue."""
        if path != self.path:
            self.path, self._last = path, 0
            self.samples.clear()

    def read(self) -> None:
        """Read the rows since the last call; after a long pause only the newest of them."""
        if self.path is None:
            return
        reader = RunReader(self.path)
        bounds = reader.bounds()
        if bounds is None:
            return
        last = bounds[1]
        if self._last == 0 or last < self._last:
            self._last = max(last - SAMPLES, 0)
        for row in reader.slots(_COLUMNS, max(self._last + 1, last - 2000), last):
            slot, position, reward, wake_s, decide_s = row
            if isinstance(position, float) and isinstance(reward, float):
                self.samples.append((slot, round(position, 4), round(reward, 4)))
            self.wake.add(wake_s)
            self.decide.add(decide_s)
        self._last = last
