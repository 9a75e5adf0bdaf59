"""The noise floor in use, and its measurement on request."""

from __future__ import annotations

import queue
from collections.abc import Sequence
from math import inf, sqrt

from macontrol.config.model.errors import ProbeError
from macontrol.config.model.reward import DB_PER_NEPER
from macontrol.config.sections.sdr import SdrSettings
from macontrol.hal.clock import Clock
from macontrol.hal.noise_floor import NoiseFloor, implausible_rise, known_floor
from macontrol.hal.probes.sdr.power import PowerReading
from macontrol.hal.probes.sdr.reader import StreamReader
from macontrol.hal.probes.sdr.worker import Outcome, WindowWorker

# The floor is measured in pieces of this length.
_PIECE_S = 0.25


class FloorMeter:
    """Measure the noise floor through the worker, in pieces."""

    def __init__(
        self, settings: SdrSettings, reader: StreamReader, worker: WindowWorker, clock: Clock
    ) -> None:
        self._settings = settings
        self._reader = reader
        self._worker = worker
        self._clock = clock
        self._interval_s = (inf, -inf)
        self.floor: NoiseFloor | None = None
        """The floor in use; None if none was measured or configured."""
        if settings.noise_floor != "measure":
            self.floor = known_floor(settings.noise_floor)

    def overlaps(self, start_s: float, end_s: float) -> bool:
        """Whether the latest measurement of the floor was in progress in this interval."""
        return start_s < self._interval_s[1] and end_s > self._interval_s[0]

    def measure(self, seconds: float | None = None) -> NoiseFloor:
        """Measure from now on; keep the previous floor and raise ProbeError on failure.

        A floor that is much higher than the previous one is a failure: the transmitter was on.
        """
        seconds = self._settings.noise_floor_s if seconds is None else seconds
        begin_s = self._clock.now() + self._settings.guard_s
        pieces = max(1, round(seconds / _PIECE_S))
        length_s = seconds / pieces
        answers: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        self._interval_s = (begin_s, begin_s + seconds)
        for k in range(pieces):
            start_s = begin_s + k * length_s
            self._worker.submit(start_s, start_s + length_s, answers.put)
        readings = [self._next_reading(answers, begin_s + seconds) for _ in range(pieces)]
        floor = mean_floor(readings, begin_s)
        if not floor.power > 0:
            raise ProbeError("noise floor not measured: the radio sends only zeros")
        if self.floor is not None:
            why = implausible_rise(floor, self.floor, self._settings.floor_drift_db)
            if why is not None:
                raise ProbeError(
                    f"noise floor not plausible: {why}",
                    "switch the transmitter off and request it again, or restart the run if the "
                    "noise has really risen",
                )
        self.floor = floor
        return floor

    def _next_reading(self, answers: queue.SimpleQueue[Outcome], end_s: float) -> PowerReading:
        timeout_s = end_s - self._clock.now() + self._settings.stale_s + 1.0
        try:
            outcome = answers.get(timeout=max(timeout_s, 0.1))
        except queue.Empty:
            outcome = "no answer"
        if isinstance(outcome, str):
            why = self._reader.fault or ProbeError(outcome)
            raise ProbeError(f"noise floor not measured: {why.detail}", why.fix)
        return outcome


def mean_floor(readings: Sequence[PowerReading], measured_at_s: float) -> NoiseFloor:
    """Combine readings of equal length; σ includes the spread between them."""
    pieces, samples = len(readings), sum(r.samples for r in readings)
    power = sum(r.power * r.samples for r in readings) / samples
    strongest = sum(r.strongest * r.samples for r in readings) / samples
    sigma = sqrt(sum(r.sigma_db**2 for r in readings)) / pieces
    if pieces > 1 and power > 0:
        spread = sum((r.power / power - 1.0) ** 2 for r in readings) / (pieces - 1)
        sigma = max(sigma, DB_PER_NEPER * sqrt(spread / pieces))
    return NoiseFloor(power, sigma, measured_at_s, strongest)
