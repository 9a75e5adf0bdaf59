"""A probe that is not a radio: a power meter that is read at intervals.

It shows that the Probe protocol does not need IQ samples, and it has none of the capabilities.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Sequence
from statistics import fmean, stdev

from macontrol.config.model.errors import ProbeError
from macontrol.config.model.reward import DB_PER_NEPER, Power
from macontrol.hal import Clock, Measurement

_READ_INTERVAL_S = 0.005


class PowerMeter:
    """Average the readings of a meter over the interval of a slot, in a thread per request."""

    def __init__(self, read: Callable[[], float], noise: float, clock: Clock) -> None:
        self._read = read
        self._noise = noise
        self._clock = clock
        self._ready: deque[Measurement] = deque()
        self._latest: threading.Thread | None = None
        self._closed = threading.Event()

    def request(self, slot: int, start_s: float, end_s: float) -> None:
        if self._closed.is_set():
            raise ProbeError("the power meter is closed")
        self._latest = threading.Thread(
            target=self._measure, args=(slot, start_s, end_s), daemon=True
        )
        self._latest.start()

    def collect(self, deadline_s: float) -> Sequence[Measurement]:
        if self._latest is not None:
            self._latest.join(max(0.0, deadline_s - self._clock.now()))
        return [self._ready.popleft() for _ in range(len(self._ready))]

    def close(self) -> None:
        self._closed.set()

    def _measure(self, slot: int, start_s: float, end_s: float) -> None:
        readings: list[float] = []
        while self._clock.now() < end_s and not self._closed.wait(_READ_INTERVAL_S):
            if self._clock.now() > start_s:
                readings.append(self._read())
        if len(readings) < 2:
            self._ready.append(Measurement(slot, None, "too-few-readings"))
            return
        power = fmean(readings)
        sigma_db = DB_PER_NEPER * stdev(readings) / power / math.sqrt(len(readings))
        self._ready.append(Measurement(slot, Power(power, self._noise, sigma_db)))
