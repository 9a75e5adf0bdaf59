"""Follows the run file of a daemon: the newest samples, and histograms of its durations."""

from __future__ import annotations

from collections import deque
from pathlib import Path

from macontrol.dashboard.run_reader import RunReader
from macontrol.metrics import Histogram

SAMPLES = 80
_COLUMNS = "slot, position, reward, wake_s, decide_s"


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
