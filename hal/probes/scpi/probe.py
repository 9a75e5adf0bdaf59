"""A probe that measures with an instrument by SCPI commands.

One thread has the instrument. At the start of a slot's interval it triggers a sweep and waits for
`*OPC?`. A sweep that is not complete at the end of the interval is stale at once. Its answer is
read and thrown away before the next sweep, so that it is never used for another slot.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from math import inf, isfinite, nan
from typing import ClassVar

from macontrol.config.model.errors import LateAnswerError, ProbeError
from macontrol.hal.clock import Clock
from macontrol.hal.probe import FLOOR_IS_MEASURED, NOT_A_NUMBER, SETTLING, STALE, TOO_FEW_SAMPLES
from macontrol.hal.probes.power_meter import (
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    MeterProbe,
    mean_level,
)
from macontrol.hal.probes.power_probe import CLOSED, Outcome, Request
from macontrol.hal.probes.scpi.commands import command_set, parsed
from macontrol.hal.probes.scpi.session import Session
from macontrol.hal.probes.scpi.settings import ScpiSettings
from macontrol.hal.probes.scpi.transport import connect

_POLL_INTERVAL_S = 0.02
# What the answers to *IDN? and SYST:ERR? and the set-up may take at an instrument.
_ANSWER_S = 5.0
_TRIAL_SWEEPS = 2
_LONGEST_SWEEP_S = 60.0


class ScpiProbe(MeterProbe):
    """The Probe for a SCPI instrument: Openable, HasNoiseFloor, HasHealth, TakesTime."""

    _settings: ScpiSettings
    hints: ClassVar[Mapping[str, str]] = {
        NOT_A_NUMBER: "the result must be numbers as text (FORM:DATA ASC), without overload",
        STALE: "a sweep must end within the interval: see `macontrol check`",
    }

    def __init__(self, settings: ScpiSettings, clock: Clock) -> None:
        self._set = command_set(settings)
        name = f"visa://{settings.resource}" if settings.resource else f"scpi://{settings.address}"
        super().__init__(settings, clock, name, self._set.unit)
        self.identification = ""
        """The instrument's answer to *IDN?."""
        self.measuring_time_s = nan
        """How long a sweep and its readout take; known when the probe is open."""
        self._sweep_s = 0.0
        """The shortest time of a sweep so far."""

    def open(self) -> None:
        """Connect, set the instrument up, and try a sweep; raise ProbeError."""
        try:
            session = self._open_session()
        except ProbeError as error:
            raise self._error(error) from None
        self._fault = None
        self._thread = threading.Thread(
            target=self._work, args=(session,), name="probe-worker", daemon=True
        )
        self._thread.start()
        while not self._is_settled():
            if self._stop.wait(_POLL_INTERVAL_S):
                raise self._error(CLOSED)
            if fault := self.fault:
                self.close()
                raise self._error(fault)

    def _open_session(self) -> Session:
        """A session with an instrument that is set up and can measure."""
        now = self._clock.now
        session = Session(connect(self._settings, self._clock, self._stop), self._clock)
        try:
            session.command("*CLS")
            self.identification = session.query("*IDN?", now() + _ANSWER_S)
            session.check_errors("*IDN?", now() + _ANSWER_S)
            for command in self._set.setup:
                session.command(command)
                session.check_errors(command, now() + _ANSWER_S)
            self._try_sweeps(session)
        except LateAnswerError as late:
            session.close()
            fix = "" if self.identification else "is this the SCPI port of the instrument?"
            raise ProbeError(late.detail, fix) from None
        except ProbeError:
            session.close()
            raise
        self._opened_s = now()
        return session

    def _try_sweeps(self, session: Session) -> None:
        """Measure how long a sweep takes. The first one may take longer, so there are more."""
        sweep_s = time_s = inf
        for _ in range(_TRIAL_SWEEPS):
            begun_s = self._clock.now()
            session.complete(self._set.trigger, begun_s + _LONGEST_SWEEP_S)
            sweep_s = min(sweep_s, self._clock.now() - begun_s)
            self._read_result(session, self._clock.now() + _ANSWER_S)
            time_s = min(time_s, self._clock.now() - begun_s)
        self._sweep_s, self.measuring_time_s = sweep_s, time_s

    # The worker thread

    def _work(self, session: Session | None) -> None:
        """Measure what is requested; open the instrument again after a failure."""
        pause_s, retry_s = FIRST_PAUSE_S, 0.0
        pending: list[Request] = []
        while not self._stop.is_set():
            self._take_requests(pending)
            try:
                if session is not None:
                    self._serve(session, pending)
                elif self._clock.now() >= retry_s:
                    session = self._open_session()
                    self._fault, self._reopened = None, self._reopened + 1
                    pause_s = FIRST_PAUSE_S
                else:
                    self._stop.wait(_POLL_INTERVAL_S)
            except ProbeError as error:
                if session is not None:
                    session.close()
                session, retry_s = None, self._clock.now() + pause_s
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
                for request in pending:
                    request.answer(STALE)
                pending.clear()
                # After the answers: `collect` returns them, and reports the fault without any.
                self._fault = CLOSED if self._stop.is_set() else error
                self._answered.set()
        self._fault = self._fault or CLOSED
        if session is not None:
            session.close()

    def _take_requests(self, pending: list[Request]) -> None:
        """Add new requests; answer those that are over, or that nothing fits into."""
        self._woken.clear()  # before the check, so that a later request ends the wait
        while self._incoming:
            pending.append(self._incoming.popleft())
        now = self._clock.now()
        for request in tuple(pending):
            if request.start_s >= request.end_s:
                request.answer(TOO_FEW_SAMPLES)
            elif request.end_s <= now:
                request.answer(STALE)
            if request.answered:
                pending.remove(request)

    def _serve(self, session: Session, pending: list[Request]) -> None:
        """Measure the next request if it is due, or wait a moment."""
        now = self._clock.now()
        if session.owed:
            if not session.settle(now + _POLL_INTERVAL_S) and (
                now > session.owed_since_s + self._settings.stale_s
            ):
                raise ProbeError(f"no answer to {session.owed} for {self._settings.stale_s:g} s")
            return
        request = min(pending, key=lambda each: each.start_s, default=None)
        wait_s = _POLL_INTERVAL_S if request is None else request.start_s - now
        if request is not None and wait_s <= 0:
            measure = self._measure_floor if request.of_floor else self._measure
            request.answer(measure(session, request, pending))
            pending.remove(request)
            return
        session.listen()
        self._woken.wait(min(wait_s, _POLL_INTERVAL_S))

    def _measure(self, session: Session, request: Request, _: list[Request]) -> Outcome:
        settings = self._settings
        if request.start_s < self._opened_s + settings.settling_s:
            return SETTLING
        # A sweep that cannot end in time would only delay the next one.
        if self._clock.now() + self._sweep_s > request.end_s:
            return STALE
        try:
            powers = self._sweep(
                session, request.end_s, request.end_s + settings.guard_s + settings.lead_s
            )
        except LateAnswerError:
            return STALE
        return self._level(powers)

    def _measure_floor(self, session: Session, request: Request, pending: list[Request]) -> Outcome:
        """As many sweeps as fit, at least one."""
        powers: list[float] = []
        late_s = request.end_s + self._settings.stale_s / 2
        try:
            while not powers or self._clock.now() + self._sweep_s <= request.end_s:
                powers += self._sweep(session, late_s, late_s)
                self._answer_meanwhile(pending, request)
        except LateAnswerError:
            if not powers:
                return STALE
        return self._level(powers)

    def _answer_meanwhile(self, pending: list[Request], floor: Request) -> None:
        """Answer the slots in which the noise floor is measured."""
        while self._incoming:
            pending.append(self._incoming.popleft())
        for request in tuple(pending):
            if request is not floor and request.start_s <= self._clock.now():
                request.answer(FLOOR_IS_MEASURED)
                pending.remove(request)

    def _sweep(self, session: Session, complete_s: float, read_s: float) -> list[float]:
        """Measure once. The sweep must be complete, and its result read, at these times."""
        begun_s = self._clock.now()
        session.complete(self._set.trigger, complete_s)
        self._sweep_s = min(self._sweep_s, self._clock.now() - begun_s)
        return self._read_result(session, read_s)

    def _read_result(self, session: Session, deadline_s: float) -> list[float]:
        answer = session.query(self._set.read, deadline_s)
        # After the result: only a well-formed answer proves that the result is this sweep's.
        session.check_errors("a sweep", deadline_s)
        return self._set.powers(parsed(answer))

    def _level(self, powers: list[float]) -> Outcome:
        if not all(isfinite(power) for power in powers):
            return NOT_A_NUMBER
        return mean_level(powers, self._settings.least_sigma_db)
