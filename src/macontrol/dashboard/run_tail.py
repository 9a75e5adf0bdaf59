"""Follows the run file of a daemon: the newest samples, and histograms of its durations."""

from __future__ import annotations

from collections import deque
from pathlib import Path

from macontrol.controller.recording.runfile.schema import learned_reward
from macontrol.dashboard.run_reader import RunReader, header_value, nested
from macontrol.metrics import Histogram

SAMPLES = 80


class RunTail:
    """Reads what is new in the run file of a daemon. Blocks: call `read` beside the event loop."""

    def __init__(self) -> None:
        self.path: Path | None = None
        self.samples: deque[tuple[int, float, float]] = deque(maxlen=SAMPLES)
        self.wake = Histogram()
        self.decide = Histogram()
        self._last = 0
        self._columns = ""

    def follow(self, path: Path | None) -> None:
        """Follow this file from its end; the histograms continue."""
        if path != self.path:
            self.path, self._last, self._columns = path, 0, ""
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
        if not self._columns:
            config = header_value(reader.header(), "config")
            reward = learned_reward(nested(config, "physical", "actuation"))
            self._columns = f"slot, position, {reward}, wake_s, decide_s"
        if self._last == 0 or last < self._last:
            self._last = max(last - SAMPLES, 0)
        for row in reader.slots(self._columns, max(self._last + 1, last - 2000), last):
            slot, position, reward, wake_s, decide_s = row
            if isinstance(position, float) and isinstance(reward, float):
                self.samples.append((slot, round(position, 4), round(reward, 4)))
            self.wake.add(wake_s)
            self.decide.add(decide_s)
        self._last = last
