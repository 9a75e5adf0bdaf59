"""What meters of a power have in common: a thread that takes requests and has the device."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from math import isfinite, nan, sqrt
from statistics import stdev

from macontrol.config.model.errors import ProbeError
from macontrol.config.model.reward import DB_PER_NEPER
from macontrol.config.sections.probe import ProbeSettings
from macontrol.hal.clock import Clock
from macontrol.hal.probe import NOT_A_NUMBER
from macontrol.hal.probes.power_probe import CLOSED, NOT_OPEN, Level, Outcome, PowerProbe, Request

FIRST_PAUSE_S = 0.1
"""The pause before a device is opened again; it doubles until it is the longest."""
LONGEST_PAUSE_S = 2.0
_THREAD_ENDS_S = 5.0


def mean_level(
    powers: Sequence[float], least_sigma_db: float, clipped_share: float | None = None
) -> Outcome:
    """The mean of powers with its standard error, which is at least `least_sigma_db`."""
    power = sum(powers) / len(powers)  # inf beyond the largest float, where fmean raises
    if not (isfinite(power) and power > 0):
        return NOT_A_NUMBER
    spread = stdev(powers) if len(powers) > 1 else 0.0
    sigma_db = max(DB_PER_NEPER * spread / power / sqrt(len(powers)), least_sigma_db)
    return Level(power, sigma_db, sigma_db, samples=len(powers), clipped_share=clipped_share)


class MeterProbe(PowerProbe):
    """A PowerProbe whose thread takes requests from `_incoming`."""

    def __init__(self, settings: ProbeSettings, clock: Clock, name: str, unit: str = "dBm") -> None:
        super().__init__(settings, clock, name, unit)
        self._incoming: deque[Request] = deque()
        self._woken = threading.Event()
        """Set when the thread has something new to look at."""
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._opened_s = nan
        self._fault: ProbeError | None = NOT_OPEN
        self._reopened = 0

    @property
    def fault(self) -> ProbeError | None:
        return self._fault

    @property
    def reopened(self) -> int:
        return self._reopened

    def close(self) -> None:
        """Stop the thread, which releases the device."""
        self._stop.set()
        self._woken.set()
        self._fault = self._fault or CLOSED
        if self._thread is not None:
            self._thread.join(_THREAD_ENDS_S)

    def _is_settled(self) -> bool:
        return self._clock.now() >= self._opened_s + self._settings.settling_s

    def _submit(self, request: Request) -> None:
        self._incoming.append(request)
        self._woken.set()
