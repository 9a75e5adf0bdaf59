"""A probe that reads the rate of the link from a command, one line per interval.

One thread reads the lines of the command and notes the time of each. The rate of a slot is the mean
of the lines whose whole interval is in the slot. So a slot must be longer than two intervals.
"""

from __future__ import annotations

import os
import re
import select
import subprocess
import threading
from collections import deque
from collections.abc import Sequence
from math import nan, sqrt
from statistics import fmean, stdev

from macontrol.config.model.errors import ProbeError
from macontrol.config.model.reward import Rate
from macontrol.hal import Clock, Measurement
from throughput_probe.settings import ThroughputSettings

_POLL_S = 0.01
_PAUSE_S = 0.5
_CLOSE_S = 2.0
_KEPT = 10_000
_LONGEST_LINE = 4096
_UNITS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9}
_PLAIN = re.compile(rb"\s*(\d+(?:\.\d+)?)\s*")
_WITH_UNIT = re.compile(rb"(?<![\w.])(\d+(?:\.\d+)?) ?([KMG]?)bits?/s(?:ec)?\b")


def rate_of(line: bytes) -> float | None:
    """The rate in a line (bit/s): a number alone, or one with a unit as iperf3 prints it."""
    if found := _PLAIN.fullmatch(line):
        return float(found[1])
    found = _WITH_UNIT.search(line)
    return float(found[1]) * _UNITS[found[2].decode()] if found else None


class ThroughputProbe:
    """Implements `Probe` and `Openable`."""

    def __init__(self, settings: ThroughputSettings, clock: Clock) -> None:
        self._settings, self._clock = settings, clock
        self.name = settings.words[0]
        self._fault = ProbeError(f"{self.name}: it is not open")
        self._works = False
        self._rates: deque[tuple[float, float]] = deque(maxlen=_KEPT)
        """The arrival of each line, and its rate."""
        self._requests: deque[tuple[int, float, float]] = deque()
        """Slot, start and end of each measurement that is not collected yet."""
        self._closing = threading.Event()
        self._reader = threading.Thread(target=self._read, name="throughput", daemon=True)

    # -- Openable -----------------------------------------------------------------------------

    def open(self) -> None:
        """Start the command and wait for its first rate."""
        self._fault = ProbeError(f"{self.name}: it has printed no rate yet")
        self._reader.start()
        until = self._clock.now() + self._settings.connect_timeout_s
        while not self._works:
            if self._closing.wait(_POLL_S) or self._clock.now() > until:
                fault = self._fault
                self.close()
                raise fault

    # -- Probe --------------------------------------------------------------------------------

    def request(self, slot: int, start_s: float, end_s: float) -> None:
        if not self._works:
            raise self._fault
        margin = self._settings.guard_s
        self._requests.append((slot, start_s + margin, end_s - margin - self._settings.lead_s))

    def collect(self, deadline_s: float) -> Sequence[Measurement]:
        """Return what is finished; wait for the latest request until the deadline."""
        due_s = self._requests[-1][2] if self._requests else deadline_s
        if due_s < deadline_s:
            self._clock.sleep_until(due_s)
        found = []
        while self._requests and self._requests[0][2] <= self._clock.now():
            found.append(self._measure(*self._requests.popleft()))
        if not (found or self._works):
            raise self._fault
        return found

    def _measure(self, slot: int, start_s: float, end_s: float) -> Measurement:
        first_s = start_s + self._settings.interval_s
        rates = [rate for moment, rate in self._rates.copy() if first_s <= moment <= end_s]
        if not rates:
            hint = "make slots longer than two lines of the command (probe.throughput.interval_s)"
            return Measurement(slot, None, "no-rate", hint=hint)
        sigma = stdev(rates) / sqrt(len(rates)) if len(rates) > 1 else nan
        return Measurement(slot, Rate(fmean(rates), sigma, self._settings.bandwidth_hz))

    def close(self) -> None:
        """End the command. A second call has no effect."""
        self._closing.set()
        self._works = False
        self._fault = ProbeError(f"{self.name}: it is closed")
        if self._reader.is_alive():
            self._reader.join(_CLOSE_S + 1.0)

    # -- The reader's thread ------------------------------------------------------------------

    def _read(self) -> None:
        """Run the command; start it again when it ends, or prints nothing useful."""
        while not self._closing.is_set():
            try:
                with subprocess.Popen(
                    self._settings.words,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                ) as command:
                    try:
                        self._fail(self._read_lines(command))
                    finally:
                        _end(command)
            except OSError as error:
                self._fail(f"it cannot be started: {error.strerror}")
            self._closing.wait(_PAUSE_S)

    def _read_lines(self, command: subprocess.Popen[bytes]) -> str:
        """Read rates until the command fails; the reason."""
        assert command.stdout is not None
        output, partial, last = command.stdout.fileno(), b"", b""
        useful_s = self._clock.now()
        while not self._closing.is_set():
            if select.select([output], [], [], _POLL_S)[0]:
                data, now = os.read(output, 65536), self._clock.now()
                if not data:
                    return f"it has ended: {last.decode(errors='replace').strip() or 'no message'}"
                *lines, partial = (partial + data).split(b"\n")
                partial = partial[-_LONGEST_LINE:]
                for line in lines:
                    if (rate := rate_of(line)) is not None:
                        self._rates.append((now, rate))
                        self._works, useful_s = not self._closing.is_set(), now
                    last = line.strip() or last
            if self._clock.now() - useful_s > self._settings.silence_s:
                return f"it has printed no rate for {self._settings.silence_s:g} s"
        return "it is closed"

    def _fail(self, reason: str) -> None:
        if not self._closing.is_set():
            self._fault = ProbeError(f"{self.name}: {reason}", "run it in a terminal")
            self._works = False


def _end(command: subprocess.Popen[bytes]) -> None:
    command.terminate()
    try:
        command.wait(_CLOSE_S)
    except subprocess.TimeoutExpired:
        command.kill()
