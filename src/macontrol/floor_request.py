"""Measure the noise floor again during a run: on request (SIGUSR1), or at intervals.

The transmitter is off meanwhile: by the commands of `[tx]`, or a person has switched it off.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from contextlib import ExitStack
from queue import Empty, SimpleQueue
from types import FrameType

from macontrol.config.model.errors import PROBE_CODE, ProbeError
from macontrol.config.sections.stage import Off


class FloorRequest:
    """Handles the signal from `__enter__` to `__exit__`, and measures in a thread of its own.

    `measure` returns the noise floor in dBFS. It is None for a probe without a noise floor: a
    request is reported and changes nothing.
    """

    def __init__(
        self, measure: Callable[[], float] | None, report: Callable[[str, float | None], None]
    ) -> None:
        self._measure = measure
        self._report = report
        self._requests: SimpleQueue[bool] = SimpleQueue()  # put() is safe in a signal handler
        self._every_s: float | None = None
        self._is_ended = False
        self._handler = ExitStack()

    def __enter__(self) -> FloorRequest:
        threading.Thread(target=self._work, name="noise-floor", daemon=True).start()
        before = signal.signal(signal.SIGUSR1, self._handle)
        self._handler.callback(signal.signal, signal.SIGUSR1, before)
        return self

    def request(self) -> None:
        """Request a measurement, as the signal does."""
        self._requests.put(True)

    def repeat(self, every_s: float | Off) -> None:
        """Measure also whenever this time has passed since the last measurement."""
        self._every_s = None if self._measure is None or every_s == "off" else every_s
        self._requests.put(False)

    def __exit__(self, *_: object) -> None:
        self._handler.close()
        self._is_ended = True
        self._requests.put(False)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        self.request()

    def _work(self) -> None:
        while not self._is_ended:
            try:
                is_due = self._requests.get(timeout=self._every_s)
            except Empty:
                is_due = True
            if is_due and not self._is_ended:
                self._measure_once()

    def _measure_once(self) -> None:
        if self._measure is None:
            self._report("ignored: this probe has no noise floor to measure", None)
            return
        try:
            with PROBE_CODE:
                floor_dbfs = self._measure()
        except ProbeError as error:
            self._report(f"{error}; keeping the previous noise floor", None)
        else:
            self._report("measured again", floor_dbfs)
