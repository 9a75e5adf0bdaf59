"""The metrics of a run in a file for the textfile collector of node_exporter.

A thread writes the file every `INTERVAL_S`, by a rename. The slot thread only adds two durations
per slot to histograms.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from macontrol.config.files.atomic_file import atomic_text
from macontrol.config.model.errors import MacontrolError
from macontrol.control.live_run import LiveRun
from macontrol.control.machine import Machine
from macontrol.control.snapshot import Snapshots
from macontrol.controller.recording.events import EventKind
from macontrol.controller.recording.records import Item, Recorder, Recorders, SlotRecord
from macontrol.metrics import Histogram, metrics_text

INTERVAL_S = 10.0
_JOIN_S = 5.0

Report = Callable[[EventKind, str], None]


class SlotDurations(Recorder):
    """Count how late the loop wakes up and how long it decides."""

    def __init__(self) -> None:
        self.wake = Histogram()
        self.decide = Histogram()

    def submit(self, item: Item) -> None:
        if type(item) is SlotRecord:
            self.wake.add(item.wake_s)
            self.decide.add(item.decide_s)


class MetricsFile:
    """Writes the metrics of a run from `__enter__` to `__exit__`; a last time at the end."""

    def __init__(
        self, path: Path, run: LiveRun, report: Report, *, interval_s: float = INTERVAL_S
    ) -> None:
        self.name = run.options.name
        self.snapshot: dict[str, Any] | None = None
        self.is_answering = self.is_connected = True
        self.tail = SlotDurations()
        self._path = path
        self._snapshots = Snapshots(run)
        self._machine = Machine()
        self._report = report
        self._interval_s = interval_s
        self._is_failing = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="metrics-file", daemon=True)

    def __enter__(self) -> MetricsFile:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(_JOIN_S)

    def _work(self) -> None:
        while not self._ended.is_set():
            self._write()
            self._ended.wait(self._interval_s)
        self.is_answering = self.is_connected = False
        self._write()

    def _write(self) -> None:
        try:
            snapshot = self._snapshots.make()
            snapshot["system"] = self._machine.state(snapshot["recording"]["run_file"])
            self.snapshot = snapshot
            with atomic_text(self._path) as file:
                file.write(metrics_text([self]))
            self._is_failing = False
        except MacontrolError as error:
            if not self._is_failing:  # each failure once, not every 10 s
                self._is_failing = True
                self._report(EventKind.WARNING, f"run.metrics_file: {error}")


def start_metrics(run: LiveRun, recorders: Recorders, report: Report, closing: ExitStack) -> None:
    """Write the metrics of a run until `closing` ends, if the config asks for it."""
    if path := run.config.run.metrics_file:
        file = closing.enter_context(MetricsFile(Path(path), run, report))
        recorders.add(file.tail)
