"""A probe that reads one number per line: a log detector behind a microcontroller.

One thread reads the port, gives every line the time of its arrival, and answers the requests whose
interval has ended. The power of a slot is the mean of its readings in linear units (1 is 0 dBm).
Only readings inside the interval count, no later or earlier one.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import replace
from itertools import pairwise
from math import isfinite, nan, sqrt

from macontrol.config.model.errors import LineBusyError, LineError, LineLostError, ProbeError
from macontrol.config.model.units import from_db
from macontrol.hal.clock import Clock
from macontrol.hal.probe import CLIPPING, GAP, NOT_A_NUMBER, SETTLING, TOO_FEW_SAMPLES
from macontrol.hal.probes.line.settings import LineSettings
from macontrol.hal.probes.power_meter import (
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    MeterProbe,
    mean_level,
)
from macontrol.hal.probes.power_probe import CLOSED, Level, Outcome, Request
from macontrol.hal.serial.line import SerialLine

_KEPT_S = 120.0
_MOST_KEPT = 200_000
_POLL_INTERVAL_S = 0.01
_FIX = "give --probe line:// and one of the ports that `macontrol devices` lists"


class LineProbe(MeterProbe):
    """The Probe for a detector on a serial port: Openable, HasNoiseFloor, HasHealth."""

    _settings: LineSettings

    def __init__(self, settings: LineSettings, clock: Clock) -> None:
        super().__init__(settings, clock, f"line://{settings.port}")
        self._readings: deque[tuple[float, float]] = deque(maxlen=_MOST_KEPT)
        """Arrival and value of the recent lines; NaN for a line that is not a number."""

    def open(self) -> None:
        """Open the port and wait for readings; raise ProbeError."""
        line = self._open_line()
        self._fault = None
        self._thread = threading.Thread(
            target=self._read, args=(line,), name="probe-reader", daemon=True
        )
        self._thread.start()
        settings = self._settings
        until_s = self._clock.now() + settings.settling_s + settings.silence_s + 1.0
        while not (self._is_settled() and self._readings):
            if self._stop.wait(_POLL_INTERVAL_S):
                raise self._error(CLOSED)
            fault = self.fault
            if fault is None and self._clock.now() > until_s:
                fault = ProbeError("no line arrives")
            if fault is not None:
                self.close()
                raise self._error(fault)

    # The reader thread

    def _open_line(self) -> SerialLine:
        try:
            line = SerialLine(self._settings.port, self._settings.baud_rate, self._clock)
        except LineError as error:
            # Most fixes of a line are those of a stage's port.
            fix = error.fix if isinstance(error, LineBusyError) else _FIX
            raise ProbeError(error.detail, fix) from None
        self._opened_s = self._clock.now()
        return line

    def _read(self, line: SerialLine | None) -> None:
        """Read lines and answer requests; open the port again after a failure."""
        pause_s, retry_s, arrived_s = FIRST_PAUSE_S, 0.0, self._clock.now()
        pending: list[Request] = []
        while not self._stop.is_set():
            now = self._clock.now()
            while self._incoming:
                pending.append(self._incoming.popleft())
            due_s = min([now + _POLL_INTERVAL_S, *(request.end_s for request in pending)])
            try:
                if line is not None:
                    if (text := line.read_message(due_s)) is not None:
                        arrived_s = self._clock.now()
                        self._readings.append((arrived_s, _number(text)))
                        if self._fault and not self._stop.is_set():
                            self._fault, self._reopened = None, self._reopened + 1
                            pause_s = FIRST_PAUSE_S
                    elif now - arrived_s > self._settings.silence_s:
                        raise ProbeError(f"no line for {self._settings.silence_s:g} s")
                elif now >= retry_s:
                    line, arrived_s = self._open_line(), now
                else:
                    self._stop.wait(_POLL_INTERVAL_S)
            except (LineError, LineLostError, ProbeError) as error:
                if line is not None:
                    line.close()
                line, retry_s = None, now + pause_s
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
                self._fault = ProbeError(error.detail, error.fix)
                self._answered.set()
            now = self._clock.now()
            for request in [request for request in pending if request.end_s < now]:
                pending.remove(request)
                request.answer(self._level(request))
            self._forget(now - _KEPT_S)
        if line is not None:
            line.close()

    def _forget(self, before_s: float) -> None:
        while self._readings and self._readings[0][0] < before_s:
            self._readings.popleft()

    def _level(self, request: Request) -> Outcome:
        settings = self._settings
        if request.start_s < self._opened_s + settings.settling_s:
            return SETTLING
        inside = [(t, x) for t, x in self._readings if request.start_s <= t <= request.end_s]
        readings = [x for _, x in inside if isfinite(x)]
        if len(inside) - len(readings) > settings.junk_share * len(inside):
            return NOT_A_NUMBER
        if len(readings) < settings.least_readings:
            return TOO_FEW_SAMPLES
        times = [request.start_s, *(t for t, _ in inside), request.end_s]
        longest_s = max(later - earlier for earlier, later in pairwise(times))
        if longest_s > (request.end_s - request.start_s) / 2:
            return GAP
        lowest, highest = settings.lowest_reading, settings.highest_reading
        clipped = sum(not lowest < reading < highest for reading in readings)
        powers = [from_db(settings.dbm(reading)) for reading in readings]
        level = mean_level(powers, settings.resolution_db / sqrt(12.0), clipped / len(readings))
        if not clipped:
            return level
        return replace(level, reason=CLIPPING) if isinstance(level, Level) else CLIPPING


def _number(text: bytes) -> float:
    try:
        return float(text)
    except ValueError:
        return nan
