"""What probes that measure a power have in common: requests, noise floor, judgement and health.

A subclass has one thread. The thread takes requests from `_incoming`, and answers each of them with
the mean power of its interval or with the reason why there is none.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite, nan, sqrt
from statistics import fmean, stdev
from typing import ClassVar, TypeAlias

from macontrol.config.model.errors import ProbeError
from macontrol.config.model.reward import DB_PER_NEPER, Power
from macontrol.config.model.units import from_db
from macontrol.config.sections.probe import ProbeSettings
from macontrol.hal.capabilities import ProbeHealth
from macontrol.hal.clock import Clock
from macontrol.hal.noise_floor import NoiseFloor, implausible_rise, known_floor
from macontrol.hal.probe import (
    FLOOR_IS_MEASURED,
    NO_NOISE_FLOOR,
    NO_SIGNAL,
    NOT_A_NUMBER,
    Measurement,
)

FIRST_PAUSE_S = 0.1
"""The pause before a device is opened again; it doubles until it is the longest."""
LONGEST_PAUSE_S = 2.0
_THREAD_ENDS_S = 5.0
CLOSED = ProbeError("the probe is closed")


@dataclass(frozen=True, slots=True)
class Level:
    """The mean power of an interval; 1 is 0 dBm, or 0 dB for a ratio."""

    power: float
    sigma_db: float


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
    answered: bool = field(default=False, init=False)

    def answer(self, outcome: Outcome) -> None:
        """Deliver the outcome; only the first one counts."""
        if not self.answered:
            self.answered = True
            self.deliver(outcome)


def mean_level(powers: Sequence[float], least_sigma_db: float) -> Outcome:
    """The mean of powers with its standard error, which is at least `least_sigma_db`."""
    power = fmean(powers)
    if not (isfinite(power) and power > 0):
        return NOT_A_NUMBER
    spread = stdev(powers) if len(powers) > 1 else 0.0
    sigma_db = DB_PER_NEPER * spread / power / sqrt(len(powers))
    return Level(power, max(sigma_db, least_sigma_db))


class PowerProbe:
    """A Probe that measures a power relative to a noise floor: HasNoiseFloor, HasHealth."""

    hints: ClassVar[Mapping[str, str]] = {}
    """What the operator can do about a reason."""

    def __init__(self, settings: ProbeSettings, clock: Clock, name: str, unit: str = "dBm") -> None:
        self._settings = settings
        self._clock = clock
        self._unit = unit
        self.name = name
        self._incoming: deque[Request] = deque()
        self._woken = threading.Event()
        """Set when the thread has something new to look at."""
        self._stop = threading.Event()
        self._answered = threading.Event()
        self._ready: deque[Measurement] = deque()
        self._latest = 0.0
        self._unanswered: set[int] = set()
        self._thread: threading.Thread | None = None
        self._opened_s = nan
        self._fault: ProbeError | None = ProbeError("the probe is not open")
        self._floor_interval_s = (nan, nan)
        self._reopened = 0
        self._valid = 0
        self._invalid: Counter[str] = Counter()
        self._lateness_s = nan
        given = settings.noise_floor
        self.noise_floor: NoiseFloor | None = (
            None if given == "measure" else known_floor(given, unit)
        )

    def close(self) -> None:
        """Stop the thread, which releases the device."""
        self._stop.set()
        self._woken.set()
        self._fault = self._fault or CLOSED
        if self._thread is not None:
            self._thread.join(_THREAD_ENDS_S)

    def request(self, slot: int, start_s: float, end_s: float) -> None:
        """Request the power of a slot; raise ProbeError with the cause if there is no device."""
        if self._fault:
            raise self._error(self._fault)
        start_s += self._settings.guard_s
        end_s -= self._settings.guard_s + self._settings.lead_s
        self._latest = end_s
        self._unanswered.add(slot)

        def deliver(outcome: Outcome) -> None:
            measurement = self._judge(slot, start_s, end_s, outcome)
            if measurement.valid:
                self._valid += 1
                self._lateness_s = self._clock.now() - end_s
            else:
                self._invalid[measurement.reason] += 1
            self._ready.append(measurement)
            self._unanswered.discard(slot)
            self._answered.set()

        self._submit(Request(start_s, end_s, deliver))

    def collect(self, deadline_s: float) -> Sequence[Measurement]:
        """Return all finished measurements; wait for the requests until the deadline."""
        while self._unanswered and self._latest < deadline_s and not self._fault:
            self._answered.clear()  # before the check, so that a later answer ends the wait
            left_s = deadline_s - self._clock.now()
            if not self._unanswered or left_s <= 0 or not self._answered.wait(left_s):
                break
        fault = self._fault  # before the results: those of a failure precede its fault
        found = [self._ready.popleft() for _ in range(len(self._ready))]
        if not found and fault:
            raise self._error(fault)
        return found

    def measure_noise_floor(self) -> NoiseFloor:
        """Measure the power with the transmitter off, from now on, and use it."""
        settings, done = self._settings, threading.Event()
        start_s = self._clock.now()
        end_s = start_s + settings.noise_floor_s
        found: list[Outcome] = []

        def deliver(outcome: Outcome) -> None:
            found.append(outcome)
            done.set()

        self._floor_interval_s = start_s, end_s
        self._submit(Request(start_s, end_s, deliver, of_floor=True))
        done.wait(settings.noise_floor_s + settings.stale_s)
        level = found[0] if found else "no answer"
        if isinstance(level, str):
            why = self._fault or ProbeError(level, self.hints.get(level, ""))
            raise self._error(ProbeError(f"noise floor not measured: {why.detail}", why.fix))
        floor = NoiseFloor(level.power, level.sigma_db, start_s, unit=self._unit)
        if self.noise_floor is not None:
            why_not = implausible_rise(floor, self.noise_floor, settings.floor_drift_db)
            if why_not is not None:
                fix = "switch the transmitter off and request it again, or restart the run"
                raise self._error(ProbeError(f"noise floor not plausible: {why_not}", fix))
        self.noise_floor = floor
        return floor

    def use_noise_floor(self, floor: NoiseFloor) -> None:
        """Replace the noise floor in use by an earlier one."""
        self.noise_floor = floor

    def health(self) -> ProbeHealth:
        """Return the state of the probe."""
        return ProbeHealth(
            fault=str(self._fault or ""),
            reopened=self._reopened,
            valid=self._valid,
            invalid=dict(self._invalid),
            lateness_s=self._lateness_s,
        )

    @property
    def fault(self) -> ProbeError | None:
        """Why there are no readings at present; None if there are."""
        return self._fault

    def _error(self, fault: ProbeError) -> ProbeError:
        return ProbeError(f"{self.name}: {fault.detail}", fault.fix)

    def _is_settled(self) -> bool:
        return self._clock.now() >= self._opened_s + self._settings.settling_s

    def _submit(self, request: Request) -> None:
        self._incoming.append(request)
        self._woken.set()

    def _judge(self, slot: int, start_s: float, end_s: float, outcome: Outcome) -> Measurement:
        floor, settings = self.noise_floor, self._settings
        if isinstance(outcome, str):
            return Measurement(slot, None, outcome, hint=self.hints.get(outcome, ""))
        if start_s < self._floor_interval_s[1] and end_s > self._floor_interval_s[0]:
            return Measurement(slot, None, FLOOR_IS_MEASURED)
        if floor is None:
            return Measurement(slot, None, NO_NOISE_FLOOR)
        margin_db = floor.margin_db(outcome.sigma_db, settings.floor_drift_db)
        above = (outcome.power / floor.power - 1.0) / (from_db(margin_db) - 1.0)
        value = Power(outcome.power, floor.power, outcome.sigma_db, floor.sigma_db)
        if above < 1:
            return Measurement(slot, value, NO_SIGNAL, above, "is the transmitter on?")
        return Measurement(slot, value, above_floor=above)
