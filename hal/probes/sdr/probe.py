"""A probe over a radio's continuous IQ stream.

One thread reads the stream into a ring, and reopens it when it fails; another waits until a
requested interval is in, and computes. The slot thread hands requests over and takes what is ready:
neither call computes or reads, and only `collect` waits, for the latest request and until its
deadline.

Of the transmission interval the guards are left out, as the stamps of samples are unsure by about
as much. A measurement is not valid, and then carries no reward, if samples of it are missing (gap,
overflow), are on the rails (clipping), are all the same (constant), are no numbers or give no power
that is one (not-a-number), are too few, came too late (stale) or too early after the radio was
tuned (settling), if the noise floor is not known or was being measured, or if the radio does not
keep its sample rate.
"""

from __future__ import annotations

import queue
import threading
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf, isfinite, isnan, nan
from typing import Protocol

import numpy as np
import numpy.typing as npt

from macontrol.config.model.errors import ProbeError
from macontrol.config.model.units import to_db
from macontrol.config.probe_settings import LONGEST_WINDOW_S, ProbeSettings
from macontrol.hal.clock import Clock
from macontrol.hal.probe import FLOOR_IS_MEASURED, Measurement
from macontrol.hal.probes.sdr.noise_floor import (
    NoiseFloor,
    given_floor,
    implausible_rise,
    mean_floor,
    measurement_of,
)
from macontrol.hal.probes.sdr.power import PowerReading, tone, wideband
from macontrol.hal.probes.sdr.ring import IQRing, Samples

# Back-off between attempts to reopen a stream; it starts anew after a stream that worked a while.
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 8.0
_WORKED_S = 5.0
# At least so often the worker looks for new requests and for ones that have waited too long.
_POLL_INTERVAL_S = 0.05
# The noise floor is measured in pieces of this length.
_FLOOR_PIECE_S = 0.25
# So many of the latest measurements tell how soon one can be ready.
_LATENESS_KEPT = 32
# So long a radio that is being opened is waited for when the probe is closed; and so long a thread.
_OPENING_ENDS_S = 2.0
_THREAD_ENDS_S = 5.0
_CLOSED = "it was closed"


class IQStream(Protocol):
    """A radio that delivers samples without a pause. Used by one thread at a time."""

    @property
    def name(self) -> str:
        """Get which radio this is."""
        ...

    @property
    def dtype(self) -> npt.DTypeLike:
        """Get the type of I and Q: bytes or floats."""
        ...

    def open(self, stop: threading.Event) -> None:
        """Connect and tune; raise ProbeError, with the reason, if that fails."""
        ...

    def read(self, ring: IQRing, stop: threading.Event) -> None:
        """Read into the ring until told to stop; raise ProbeError if the stream is lost."""
        ...

    def close(self) -> None:
        """Let go of the radio; harmless if it is not open."""
        ...


@dataclass(frozen=True, slots=True)
class ProbeHealth:
    """How a probe is doing."""

    fault: str
    """Why there are no samples at present; empty if there are."""
    reopened: int
    valid: int
    invalid: dict[str, int]
    """How many measurements were not valid, by reason."""
    breaks: dict[str, int]
    """How often samples were lost, by reason."""
    level_dbfs: float
    level_dbm: float | None
    clipped_share: float
    lateness_s: float
    """From the end of the latest measured window until its measurement was ready."""
    behind_s: float
    """How late samples arrive at present, beyond the usual."""
    measured_rate_hz: float
    noise_floor: NoiseFloor | None


@dataclass(slots=True)
class _Request:
    slot: int
    start_s: float
    end_s: float
    reply: queue.SimpleQueue[PowerReading | str] | None = None
    """Where the bare reading goes; None for a slot."""
    is_answered: bool = False


@dataclass(slots=True)
class _Figures:
    """What the worker keeps for the health report."""

    valid: int = 0
    invalid: Counter[str] = field(default_factory=Counter)
    level: float = nan
    clipped: float = nan
    lateness_s: float = nan


class SdrProbe:
    """The Probe over any IQ stream. `open` it before use."""

    def __init__(
        self,
        settings: ProbeSettings,
        stream: IQStream,
        clock: Clock,
        *,
        transmission_share: float,
    ) -> None:
        self._settings = settings
        self._stream = stream
        self._clock = clock
        self._share = transmission_share
        self._ring = IQRing(
            settings.sample_rate_hz,
            capacity_s=LONGEST_WINDOW_S + settings.stale_s + 0.5,
            tolerance_s=settings.guard_s,
            settling_s=settings.settling_s,
            stale_s=settings.stale_s,
            delay_s=settings.delay_s,
            dtype=stream.dtype,
            on_settled=self._samples_flow,
        )
        self._incoming: queue.SimpleQueue[_Request] = queue.SimpleQueue()
        self._ready: deque[Measurement] = deque()
        self._latest: _Request | None = None
        self._answered = threading.Event()
        self._recent_lateness: deque[float] = deque(maxlen=_LATENESS_KEPT)
        self._soonest_s = -inf
        self._quiet_s = (inf, -inf)
        self._fault = "it was not opened"
        self._reopened = 0
        self._figures = _Figures()
        self._stop = threading.Event()
        self._opening = threading.Lock()
        """Held while the radio is opened or let go of, outside the reader thread."""
        self._threads: list[threading.Thread] = []
        self._floor: NoiseFloor | None = None
        if settings.noise_floor != "measure":
            self._floor = given_floor(settings.noise_floor)

    @property
    def name(self) -> str:
        """Get which radio measures."""
        return self._stream.name

    @property
    def noise_floor(self) -> NoiseFloor | None:
        """Get the noise floor in use; None if none was measured or given."""
        return self._floor

    def use_noise_floor(self, floor: NoiseFloor) -> None:
        """Take a noise floor that was measured earlier, in place of the one in use."""
        self._floor = floor

    def open(self) -> None:
        """Connect, tune and wait until the samples flow; raise ProbeError if they do not."""
        try:
            with self._opening:
                self._open_stream()
            settings = self._settings
            until = self._clock.now() + settings.settling_s + settings.silence_s + 1.0
            while not self._ring.is_settled:
                if self._stop.wait(0.01):
                    raise ProbeError(f"{self.name}: {_CLOSED}")
                if self._clock.now() > until or self._fault:
                    raise ProbeError(f"{self.name}: {self._fault or self._ring.why_unsettled}")
        except BaseException:
            self.close()
            raise

    def _open_stream(self) -> None:
        try:
            self._stream.open(self._stop)
            if self._stop.is_set():
                raise ProbeError(_CLOSED)
        except ProbeError as error:
            raise ProbeError(f"{self.name}: {error}") from None
        self._fault = ""
        for target in (self._read, self._work):
            thread = threading.Thread(target=target, name=f"probe{target.__name__}")
            thread.daemon = True
            thread.start()
            self._threads.append(thread)

    def close(self) -> None:
        """Stop reading and let go of the radio.

        A thread that is still opening it, or reading, lets go of it itself as soon as it can: a
        radio is not to be closed by one thread while another one uses it.
        """
        self._stop.set()
        self._fault = self._fault or _CLOSED
        if not self._opening.acquire(timeout=_OPENING_ENDS_S):
            return
        try:
            for thread in self._threads:
                thread.join(_THREAD_ENDS_S)
            self._threads = [thread for thread in self._threads if thread.is_alive()]
            if not self._threads:
                self._stream.close()
        finally:
            self._opening.release()

    def request(self, slot: int, start_s: float, end_s: float) -> None:
        """Ask for the reward of a slot, measured between two moments of the clock.

        While there is no stream it is not taken, and a ProbeError says why there is none.
        """
        if fault := self._fault:
            raise ProbeError(f"{self.name}: {fault}")
        settings = self._settings
        end = end_s - settings.guard_s - settings.lead_s
        start = max(start_s + settings.guard_s, end - LONGEST_WINDOW_S)
        self._latest = request = _Request(slot, start, end)
        self._incoming.put(request)

    def collect(self, deadline_s: float) -> Sequence[Measurement]:
        """Get what has become ready, waiting for the latest request until the deadline.

        It does not wait where even the soonest of the recent measurements would be too late.
        """
        latest, ready = self._latest, self._ready
        if latest is not None and latest.end_s + self._soonest_s < deadline_s:
            while True:
                self._answered.clear()  # before looking: what happens after it ends the wait
                if latest.is_answered or self._fault:
                    break
                left = deadline_s - self._clock.now()
                if left <= 0 or not self._answered.wait(left):
                    break
        found = [ready.popleft() for _ in range(len(ready))]
        if not found and self._fault:
            raise ProbeError(f"{self.name}: {self._fault}")
        return found

    def measure_noise_floor(self, seconds: float | None = None) -> NoiseFloor:
        """Measure the power with the transmitter off, from now on for some seconds.

        Not for the slot thread: it takes as long as it measures. Slots measured meanwhile are not
        valid. The previous floor stays in use if none can be measured, or if the new one is so
        much higher that the transmitter must have been on.
        """
        seconds = self._settings.noise_floor_s if seconds is None else seconds
        begin = self._clock.now() + self._settings.guard_s
        pieces = max(1, round(seconds / _FLOOR_PIECE_S))
        length = seconds / pieces
        reply: queue.SimpleQueue[PowerReading | str] = queue.SimpleQueue()
        self._quiet_s = (begin, begin + seconds)
        for k in range(pieces):
            start = begin + k * length
            self._incoming.put(_Request(-1, start, start + length, reply))
        readings = [self._await_reply(reply, begin + seconds) for _ in range(pieces)]
        floor, previous = mean_floor(readings, begin), self._floor
        if not floor.power > 0:
            raise ProbeError(f"{self.name}: noise floor not measured: the radio sends only zeros")
        if previous is not None:
            why = implausible_rise(floor, previous, self._settings.floor_drift_db)
            if why is not None:
                raise ProbeError(f"{self.name}: noise floor not plausible: {why}")
        self._floor = floor
        return floor

    def _await_reply(
        self, reply: queue.SimpleQueue[PowerReading | str], end_s: float
    ) -> PowerReading:
        patience = end_s - self._clock.now() + self._settings.stale_s + 1.0
        try:
            answer: PowerReading | str = reply.get(timeout=max(patience, 0.1))
        except queue.Empty:
            answer = "no answer"
        if isinstance(answer, str):
            why = self._fault or answer
            raise ProbeError(f"{self.name}: noise floor not measured: {why}")
        return answer

    def health(self) -> ProbeHealth:
        """Get how the probe is doing."""
        figures = self._figures
        level = nan if isnan(figures.level) else to_db(figures.level)
        return ProbeHealth(
            fault=self._fault,
            reopened=self._reopened,
            valid=figures.valid,
            invalid=dict(figures.invalid),
            breaks=dict(self._ring.restarts),
            level_dbfs=level,
            level_dbm=self._settings.dbm(level),
            clipped_share=figures.clipped,
            lateness_s=figures.lateness_s,
            behind_s=self._ring.behind_s,
            measured_rate_hz=self._ring.measured_rate_hz,
            noise_floor=self._floor,
        )

    # The reader thread

    def _read(self) -> None:
        """Keep the stream flowing into the ring, whatever happens to it."""
        pause, is_open = _FIRST_PAUSE_S, True
        while not self._stop.is_set():
            began = inf  # a radio that takes long to be opened has not worked yet
            try:
                if not is_open:
                    self._stream.open(self._stop)
                    is_open = True
                    self._ring.restart("gap", self._clock.now(), reopened=True)
                began = self._clock.now()
                self._stream.read(self._ring, self._stop)
            except Exception as error:  # a reader that died in silence would be worse
                known = isinstance(error, ProbeError)
                self._fault = str(error) if known else f"{type(error).__name__}: {error}"
                self._answered.set()
            self._stream.close()
            is_open = False
            if self._stop.is_set():
                break
            self._ring.restart("gap", self._clock.now(), reopened=True)
            if self._clock.now() - began > _WORKED_S:
                pause = _FIRST_PAUSE_S
            self._stop.wait(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)
        self._stream.close()

    def _samples_flow(self) -> None:
        """Forget the fault: not when a stream is open again, but when samples come of it."""
        if self._fault and not self._stop.is_set():
            self._fault = ""
            self._reopened += 1

    # The worker thread

    def _work(self) -> None:
        pending: deque[_Request] = deque()
        while not self._stop.is_set():
            if pending:
                self._ring.wait(min(r.end_s for r in pending), _POLL_INTERVAL_S)
            else:
                try:
                    pending.append(self._incoming.get(timeout=5 * _POLL_INTERVAL_S))
                except queue.Empty:
                    continue
            while not self._incoming.empty():
                pending.append(self._incoming.get())
            for _ in range(len(pending)):
                request = pending.popleft()
                try:
                    outcome = self._outcome(request)
                except Exception as error:  # no request may go unanswered, nor end the thread
                    outcome = f"{type(error).__name__}: {error}"
                if outcome is None:
                    pending.append(request)
                elif request.reply is not None:
                    request.reply.put(outcome)
                else:
                    self._answer(request, outcome)

    def _outcome(self, request: _Request) -> PowerReading | str | None:
        """The reading, or why there is none, or None as long as it is pending."""
        settings = self._settings
        wanted = (request.end_s - request.start_s) * settings.sample_rate_hz
        if wanted < settings.least_samples:
            return "too-few-samples"
        window = self._ring.window(request.start_s, request.end_s)
        if window.state == "pending":
            overdue = self._clock.now() > request.end_s + settings.stale_s
            return self._explained("stale") if overdue else None
        if window.samples is None:
            return self._explained(window.reason)
        with np.errstate(all="ignore"):  # floats may be anything: what comes of them is looked at
            if not np.ptp(window.samples, axis=0).any():
                return "constant"  # any radio that works shows at least its own noise
            reading = self._reading(window.samples)
        if not isfinite(reading.power):
            return "not-a-number"
        if reading.clipped_share > settings.clipping_share:
            return "clipping"
        return reading

    def _explained(self, reason: str) -> str:
        lost = reason in ("gap", "stale")
        return "sample-rate" if lost and self._ring.loses_by_its_rate else reason

    def _reading(self, samples: Samples) -> PowerReading:
        settings = self._settings
        if settings.mode == "tone":
            reading = tone(
                samples,
                settings.sample_rate_hz,
                settings.tone_offset_hz,
                settings.tone_bandwidth_hz,
            )
        else:
            reading = wideband(samples)
        self._figures.level = reading.power
        self._figures.clipped = reading.clipped_share
        return reading

    def _answer(self, request: _Request, outcome: PowerReading | str) -> None:
        measurement = self._judge(request, outcome)
        if measurement.valid:
            self._figures.valid += 1
            lateness = self._clock.now() - request.end_s
            self._figures.lateness_s = lateness
            self._recent_lateness.append(lateness)
            self._soonest_s = min(self._recent_lateness)
        else:
            self._figures.invalid[measurement.reason] += 1
        self._ready.append(measurement)
        request.is_answered = True
        self._answered.set()

    def _judge(self, request: _Request, outcome: PowerReading | str) -> Measurement:
        floor, quiet = self._floor, self._quiet_s
        if isinstance(outcome, str):
            return Measurement(request.slot, nan, False, reason=outcome)
        if request.start_s < quiet[1] and request.end_s > quiet[0]:
            return Measurement(request.slot, nan, False, reason=FLOOR_IS_MEASURED)
        if floor is None:
            return Measurement(request.slot, nan, False, reason="no-noise-floor")
        drift_db = self._settings.floor_drift_db
        return measurement_of(request.slot, outcome, floor, self._share, drift_db)
