"""The noise floor measured again in mid-run, on request: SIGUSR1, with the transmitter off."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from contextlib import ExitStack
from queue import SimpleQueue
from types import FrameType

from macontrol.config.model.errors import ProbeError
from macontrol.hal.noise_floor import NoiseFloor


class FloorRequest:
    """Listens from `__enter__` to `__exit__`, and measures in a thread of its own.

    A simulated probe has nothing to measure (None): a request is reported and changes nothing.
    """

    def __init__(
        self, measure: Callable[[], NoiseFloor] | None, report: Callable[[str, float | None], None]
    ) -> None:
        self._measure = measure
        self._report = report
        self._asked: SimpleQueue[bool] = SimpleQueue()  # its put may be called in a signal handler
        self._handler = ExitStack()

    def __enter__(self) -> FloorRequest:
        threading.Thread(target=self._work, name="noise-floor", daemon=True).start()
        before = signal.signal(signal.SIGUSR1, self._handle)
        self._handler.callback(signal.signal, signal.SIGUSR1, before)
        return self

    def __exit__(self, *_: object) -> None:
        self._handler.close()
        self._asked.put(False)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        self._asked.put(True)

    def _work(self) -> None:
        while self._asked.get():
            if self._measure is None:
                self._report("ignored: a simulated probe has no noise floor to measure", None)
                continue
            try:
                floor = self._measure()
            except ProbeError as error:
                self._report(f"{error}; keeping the previous noise floor", None)
            else:
                self._report("measured again", floor.dbfs)
