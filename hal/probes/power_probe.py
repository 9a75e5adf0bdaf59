"""What probes of a power have in common: requests, noise floor, judgement and health.

A subclass has a thread that answers each request with the level of its interval, or with the reason
why there is none. The slot thread only submits requests and takes finished measurements.
"""

from __future__ import annotations

import queue
import threading
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, nan, sqrt
from typing import ClassVar, TypeAlias

from macontrol.config.model.errors import ProbeError
from macontrol.config.model.reward import DB_PER_NEPER, Power
from macontrol.config.model.units import from_db, known_db
from macontrol.config.sections.probe import ProbeSettings
from macontrol.hal.capabilities import ProbeHealth
from macontrol.hal.clock import Clock
from macontrol.hal.noise_floor import NoiseFloor, implausible_rise, known_floor
from macontrol.hal.probe import (
    FLOOR_IS_MEASURED,
    NO_NOISE_FLOOR,
    NO_SIGNAL,
    TONE_LOST,
    Measurement,
    Signal,
)

CLOSED = ProbeError("the probe is closed")
NOT_OPEN = ProbeError("the probe is not open")
# The number of recent measurements that show how soon one can be ready.
_LATENESS_KEPT = 32
# A line outside the tone's band must exceed the margin by this factor, because it is the strongest
# of many bands.
_CLEAR = 3.0


@dataclass(frozen=True, slots=True)
class Level:
    """The mean power of an interval, on the probe's own scale."""

    power: float
    """1 is the full scale of a radio, 0 dBm, or 0 dB for a ratio."""
    sigma_db: float
    """Standard deviation of the power (dB)."""
    noise_sigma_db: float = inf
    """The standard deviation of an interval that contains only noise (dB)."""
    samples: int = 1
    strongest: float = nan
    """The power in the strongest band of the same width; NaN if only one band is measured."""
    strongest_hz: float = nan
    """The centre of a band with the strongest line, from the tuned frequency."""
    clipped_share: float | None = None
    """The share of samples on the rails; None if the probe cannot see that."""
    reason: str = ""
    """Why the level is no measurement, as with clipping; empty if it is one."""


Outcome: TypeAlias = Level | str
"""A level, or the reason why there is none."""


@dataclass(slots=True)
class Request:
    """An interval whose power is requested."""

    start_s: float
    end_s: float
    deliver: Callable[[Outcome], None]
    of_floor: bool = False
    """Whether it is for the noise floor: as many readings as fit."""
    slot: int | None = None
    """None if it is not for a slot."""
    answered: bool = field(default=False, init=False)

    def answer(self, outcome: Outcome) -> None:
        """Deliver the outcome; only the first one counts."""
        if not self.answered:
            self.answered = True
            self.deliver(outcome)


class PowerProbe(ABC):
    """A Probe that measures a power relative to a noise floor: HasNoiseFloor, HasHealth."""

    hints: ClassVar[Mapping[str, str]] = {}
    """What the operator can do about a reason."""
    longest_s: ClassVar[float] = inf
    """Of a longer interval the last part is measured."""
    floor_piece_s: ClassVar[float] = inf
    """The noise floor is measured in pieces of about this length."""

    def __init__(self, settings: ProbeSettings, clock: Clock, name: str, unit: str) -> None:
        self._settings = settings
        self._clock = clock
        self._unit = unit
        self.name = name
        """Which device measures."""
        self._answered = threading.Event()
        """Set when the slot thread has something new to look at."""
        self._ready: deque[Measurement] = deque()
        self._unanswered: set[int] = set()
        self._latest_s = 0.0
        self._lateness_s: deque[float] = deque(maxlen=_LATENESS_KEPT)
        self._soonest_s = -inf
        self._valid = 0
        self._invalid: Counter[str] = Counter()
        self._floor_interval_s = (nan, nan)
        self.noise_floor: NoiseFloor | None = None
        """The noise floor in use; None if none was measured or configured."""
        if settings.noise_floor != "measure":
            self.noise_floor = known_floor(settings.noise_floor, unit)

    @property
    @abstractmethod
    def fault(self) -> ProbeError | None:
        """Why the probe cannot measure at present; None if it can."""

    @property
    @abstractmethod
    def reopened(self) -> int:
        """How often the connection was restored."""

    @abstractmethod
    def _submit(self, request: Request) -> None:
        """Give a request to the thread."""

    def request(self, slot: int, start_s: float, end_s: float) -> None:
        """Request the power of a slot; raise ProbeError with the cause if there is no device."""
        if fault := self.fault:
            raise self._error(fault)
        settings = self._settings
        end_s -= settings.guard_s + settings.lead_s
        start_s = max(start_s + settings.guard_s, end_s - self.longest_s)
        self._latest_s = end_s
        self._unanswered.add(slot)

        def deliver(outcome: Outcome) -> None:
            measurement = self._judge(slot, start_s, end_s, outcome)
            if measurement.valid:
                self._valid += 1
                self._lateness_s.append(self._clock.now() - end_s)
                self._soonest_s = min(self._lateness_s)
            else:
                self._invalid[measurement.reason] += 1
            self._ready.append(measurement)
            self._unanswered.discard(slot)
            self._answered.set()

        self._submit(Request(start_s, end_s, deliver, slot=slot))

    def collect(self, deadline_s: float) -> Sequence[Measurement]:
        """Return all finished measurements; wait for the requests until the deadline.

        There is no wait if even the fastest of the recent measurements would be too late.
        """
        while self._latest_s + self._soonest_s < deadline_s:
            self._answered.clear()  # before the check, so that a later answer ends the wait
            left_s = deadline_s - self._clock.now()
            if not self._unanswered or self.fault or left_s <= 0 or not self._answered.wait(left_s):
                break
        fault = self.fault  # before the results: those of a failure precede its fault
        found = [self._ready.popleft() for _ in range(len(self._ready))]
        if not found and fault:
            raise self._error(fault)
        return found

    def measure_noise_floor(self) -> NoiseFloor:
        """Measure the power with the transmitter off, from now on, and use it.

        This must not run on the slot thread. Slots in this time are invalid. On ProbeError the
        previous floor stays in use. A floor that is much higher than the previous one is a failure:
        the transmitter was on.
        """
        settings, answers = self._settings, queue.SimpleQueue[Outcome]()
        start_s = self._clock.now() + settings.guard_s
        end_s = start_s + settings.noise_floor_s
        pieces = max(1, round(settings.noise_floor_s / self.floor_piece_s))
        piece_s = settings.noise_floor_s / pieces
        self._floor_interval_s = start_s, end_s
        for begin_s in (start_s + number * piece_s for number in range(pieces)):
            self._submit(Request(begin_s, begin_s + piece_s, answers.put, of_floor=True))
        floor = mean_floor([self._next_level(answers, end_s) for _ in range(pieces)], start_s)
        floor = replace(floor, unit=self._unit)
        if not floor.power > 0:
            raise self._error(ProbeError("noise floor not measured: the radio sends only zeros"))
        if self.noise_floor is not None:
            why = implausible_rise(floor, self.noise_floor, settings.floor_drift_db)
            if why is not None:
                fix = (
                    "switch the transmitter off and request it again, or restart the run if the "
                    "noise has really risen"
                )
                raise self._error(ProbeError(f"noise floor not plausible: {why}", fix))
        self.noise_floor = floor
        return floor

    def use_noise_floor(self, floor: NoiseFloor) -> None:
        """Replace the noise floor in use by an earlier one."""
        self.noise_floor = floor

    def health(self) -> ProbeHealth:
        """Return the state of the probe."""
        return ProbeHealth(
            fault=str(self.fault or ""),
            reopened=self.reopened,
            valid=self._valid,
            invalid=dict(self._invalid),
            lateness_s=self._lateness_s[-1] if self._lateness_s else nan,
        )

    def _error(self, fault: ProbeError) -> ProbeError:
        return ProbeError(f"{self.name}: {fault.detail}", fault.fix)

    def _next_level(self, answers: queue.SimpleQueue[Outcome], end_s: float) -> Level:
        timeout_s = end_s - self._clock.now() + self._settings.stale_s + 1.0
        try:
            outcome = answers.get(timeout=max(timeout_s, 0.1))
        except queue.Empty:
            outcome = "no answer"
        if isinstance(outcome, Level) and outcome.reason:
            outcome = outcome.reason
        if isinstance(outcome, str):
            why = self.fault or ProbeError(outcome, self.hints.get(outcome, ""))
            raise self._error(ProbeError(f"noise floor not measured: {why.detail}", why.fix))
        return outcome

    def _judge(self, slot: int, start_s: float, end_s: float, outcome: Outcome) -> Measurement:
        if isinstance(outcome, str):
            return Measurement(slot, None, outcome, hint=self.hints.get(outcome, ""))
        floor = self.noise_floor
        signal = Signal(
            known_db(outcome.power),
            self._unit,
            None if floor is None else known_db(floor.power),
            clipped_share=outcome.clipped_share,
            samples=outcome.samples,
        )
        if outcome.reason:
            hint = self.hints.get(outcome.reason, "")
            return Measurement(slot, None, outcome.reason, hint=hint, signal=signal)
        if start_s < self._floor_interval_s[1] and end_s > self._floor_interval_s[0]:
            return Measurement(slot, None, FLOOR_IS_MEASURED, signal=signal)
        if floor is None:
            return Measurement(slot, None, NO_NOISE_FLOOR, signal=signal)
        drift_db = self._settings.floor_drift_db
        return replace(measurement_of(slot, outcome, floor, drift_db), signal=signal)


def measurement_of(slot: int, level: Level, floor: NoiseFloor, drift_db: float) -> Measurement:
    """Return the power of a slot, and the fault it indicates if it stays at the floor."""
    # What noise alone can cause, relative to the floor.
    margin = from_db(floor.margin_db(level.noise_sigma_db, drift_db)) - 1.0
    above, reason, hint = (level.power / floor.power - 1.0) / margin, "", ""
    if above < 1:
        reason, hint = NO_SIGNAL, "is the transmitter on?"
        if level.strongest / floor.strongest - 1.0 > _CLEAR * margin:  # False if one is NaN
            offset = level.strongest_hz
            reason, hint = (
                TONE_LOST,
                f"there is a line {offset:.0f} Hz from the tuned frequency, outside the band; if "
                f"it is the tone, set probe.tone_offset_hz to {offset:.0f}, or widen "
                "probe.tone_bandwidth_hz",
            )
    value = Power(level.power, floor.power, level.sigma_db, floor.sigma_db)
    return Measurement(slot, value, reason, above, hint)


def mean_floor(levels: Sequence[Level], measured_at_s: float) -> NoiseFloor:
    """Combine levels of intervals of equal length; σ includes the spread between them."""
    pieces, samples = len(levels), sum(level.samples for level in levels)
    power = sum(level.power * level.samples for level in levels) / samples
    strongest = sum(level.strongest * level.samples for level in levels) / samples
    sigma = sqrt(sum(level.sigma_db**2 for level in levels)) / pieces
    if pieces > 1 and power > 0:
        spread = sum((level.power / power - 1.0) ** 2 for level in levels) / (pieces - 1)
        sigma = max(sigma, DB_PER_NEPER * sqrt(spread / pieces))
    return NoiseFloor(power, sigma, measured_at_s, strongest)
