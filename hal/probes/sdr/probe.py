"""A probe that measures with the continuous IQ stream of a radio.

`StreamReader` reads the samples into a ring, in a thread. `WindowWorker` computes the power of
requested windows, in a second thread. The slot thread only submits requests and takes finished
measurements: it neither reads nor computes, and waits only in `collect`.

Guards at both ends of the transmission interval are not measured, because the time stamps of
samples have about that error. A measurement is invalid if the worker has no reading (see there),
if the noise floor is unknown, or if the floor itself is being measured.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import inf, isnan, nan

from macontrol.config.model.errors import ProbeError
from macontrol.config.model.units import to_db
from macontrol.config.sections.sdr import LONGEST_WINDOW_S, SdrSettings
from macontrol.hal.capabilities import ProbeHealth
from macontrol.hal.clock import Clock
from macontrol.hal.noise_floor import NoiseFloor
from macontrol.hal.probe import FLOOR_IS_MEASURED, NO_NOISE_FLOOR, Measurement
from macontrol.hal.probes.sdr.floor_meter import FloorMeter
from macontrol.hal.probes.sdr.judgement import measurement_of
from macontrol.hal.probes.sdr.reader import IQStream, StreamReader
from macontrol.hal.probes.sdr.worker import Outcome, WindowWorker

# The number of recent measurements that show how soon one can be ready.
_LATENESS_KEPT = 32


@dataclass(slots=True)
class _SlotRequest:
    slot: int
    start_s: float
    end_s: float
    is_answered: bool = False


class SdrProbe:
    """The Probe for any IQ stream: Openable, HasNoiseFloor, HasHealth."""

    def __init__(
        self,
        settings: SdrSettings,
        stream: IQStream,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self.name = stream.name
        """Which radio measures."""
        self._answered = threading.Event()
        self._reader = StreamReader(settings, stream, clock, on_fault=self._answered.set)
        self._worker = WindowWorker(settings, self._reader.ring, clock, self._reader.stop)
        self._meter = FloorMeter(settings, self._reader, self._worker, clock)
        self._ready: deque[Measurement] = deque()
        self._latest: _SlotRequest | None = None
        self._recent_lateness_s: deque[float] = deque(maxlen=_LATENESS_KEPT)
        self._soonest_s = -inf
        self._valid = 0
        self._invalid: Counter[str] = Counter()

    def open(self) -> None:
        """Connect, tune and wait for samples; raise ProbeError or ConfigError."""
        try:
            self._reader.open()
        except BaseException:
            self.close()
            raise
        self._worker.start()

    def close(self) -> None:
        """Stop both threads and release the radio."""
        self._reader.close()
        self._worker.join()

    def request(self, slot: int, start_s: float, end_s: float) -> None:
        """Request the reward of a slot; raise ProbeError with the reason if there is no stream."""
        if fault := self._reader.fault:
            raise self._reader.error(fault)
        settings = self._settings
        end_s = end_s - settings.guard_s - settings.lead_s
        start_s = max(start_s + settings.guard_s, end_s - LONGEST_WINDOW_S)
        self._latest = request = _SlotRequest(slot, start_s, end_s)
        self._worker.submit(start_s, end_s, partial(self._answer, request))

    def collect(self, deadline_s: float) -> Sequence[Measurement]:
        """Return all finished measurements; wait for the latest request until the deadline.

        There is no wait if even the fastest of the recent measurements would be too late.
        """
        latest, ready = self._latest, self._ready
        if latest is not None and latest.end_s + self._soonest_s < deadline_s:
            while True:
                self._answered.clear()  # before the check, so that a later answer ends the wait
                if latest.is_answered or self._reader.fault:
                    break
                left_s = deadline_s - self._clock.now()
                if left_s <= 0 or not self._answered.wait(left_s):
                    break
        found = [ready.popleft() for _ in range(len(ready))]
        if not found and (fault := self._reader.fault):
            raise self._reader.error(fault)
        return found

    @property
    def noise_floor(self) -> NoiseFloor | None:
        """The noise floor in use; None if none was measured or configured."""
        return self._meter.floor

    def use_noise_floor(self, floor: NoiseFloor) -> None:
        """Replace the noise floor in use by an earlier one."""
        self._meter.floor = floor

    def measure_noise_floor(self, seconds: float | None = None) -> NoiseFloor:
        """Measure the power with the transmitter off, from now on, and use it.

        This must not run on the slot thread. Slots in this time are invalid. On ProbeError the
        previous floor stays in use.
        """
        try:
            return self._meter.measure(seconds)
        except ProbeError as error:
            raise self._reader.error(error) from None

    def health(self) -> ProbeHealth:
        """Return the state of the probe."""
        reader, worker = self._reader, self._worker
        return ProbeHealth(
            fault=str(reader.fault or ""),
            reopened=reader.reopened,
            valid=self._valid,
            invalid=dict(self._invalid),
            breaks=dict(reader.ring.restarts),
            level_dbfs=nan if isnan(worker.level) else to_db(worker.level),
            clipped_share=worker.clipped_share,
            lateness_s=self._recent_lateness_s[-1] if self._recent_lateness_s else nan,
            measured_rate_hz=reader.ring.measured_rate_hz,
        )

    def _answer(self, request: _SlotRequest, outcome: Outcome) -> None:
        """Finish a request, on the worker thread."""
        measurement = self._judge(request, outcome)
        if measurement.valid:
            self._valid += 1
            self._recent_lateness_s.append(self._clock.now() - request.end_s)
            self._soonest_s = min(self._recent_lateness_s)
        else:
            self._invalid[measurement.reason] += 1
        self._ready.append(measurement)
        request.is_answered = True
        self._answered.set()

    def _judge(self, request: _SlotRequest, outcome: Outcome) -> Measurement:
        floor = self._meter.floor
        if isinstance(outcome, str):
            return Measurement(request.slot, None, outcome)
        if self._meter.overlaps(request.start_s, request.end_s):
            return Measurement(request.slot, None, FLOOR_IS_MEASURED)
        if floor is None:
            return Measurement(request.slot, None, NO_NOISE_FLOOR)
        return measurement_of(request.slot, outcome, floor, self._settings.floor_drift_db)
