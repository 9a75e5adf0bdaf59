"""A stage driven by a GRBL 1.1 board, or one of its dialects (grblHAL, FluidNC).

One motion is in flight at a time. A move is sent as two lines, the motion and `G4 P0`: a board
answers the first when it has planned the motion and the second when the motion is over. No answer
tells where the carriage is, so a report is taken before every move and after it. It is believed
only between a homing and the next banner, alarm or loss of connection:
each of those makes the position unknown, and an unknown position is never moved from.

Distances along the rail are counted from where the carriage stands after homing, so neither the
sign of the machine's coordinates, nor the pull-off, nor where a dialect puts its zero matters.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from math import ceil, floor, inf, nan
from typing import TypeVar

from macontrol.config.model.errors import ConfigError, StageError
from macontrol.config.sections.stage import AXES
from macontrol.hal.clock import Clock
from macontrol.hal.serial.latency import Parts, measure_until_stable
from macontrol.hal.serial.line import Line, TrafficLog
from macontrol.hal.serial.stage import RestartedError, SerialStage
from macontrol.hal.stage import Arrival, StageDescription
from macontrol.hal.stages.grbl.board import Axis, BoardIdentity, read_axis
from macontrol.hal.stages.grbl.protocol import (
    CRITICAL_ALARMS,
    FEED_HOLD,
    HARD_LIMIT,
    RESET,
    STATUS_QUERY,
    Alarm,
    Banner,
    Failure,
    Message,
    Ok,
    Report,
    Setting,
    Status,
    parse,
)
from macontrol.hal.stages.grbl.settings import GrblSettings

_BANNER_WAIT_S = 2.5
_ANSWER_S = 1.0
_COMMAND_S = 3.0
_STOP_S = 5.0
_POLL_S = 0.02
# In a batch; see hal/serial/latency.py.
_TIMED_EXCHANGES = 6
_LOST_SAMPLES = 3
_REPORTS_OF_HOME = 5
# How often a board is asked for its settings to hear the same twice.
_READINGS = 5
# GRBL is deaf for half a second after an alarm: a reset sent before its message is swallowed.
_ALARM_MESSAGE_S = 1.5
# A report that is no older need not be asked for again.
_FRESH_S = 0.01
# How long after a report of Idle an outstanding `ok` may still come: at the target, and elsewhere,
# where the motion may not have begun.
_STRAGGLER_S = 0.1
_NOT_BEGUN_S = 1.0
# What a motion costs beyond its own length and the answer to an empty line: planning before the
# first step, GRBL's motion in segments of 10 ms, the answer to the dwell.
_PLANNING_S = 0.015
# Reports are in micrometres, and where a target and a report are rounded they may part by more.
_REPORT_MM = 2e-3

_Facts = TypeVar("_Facts")


class GrblStage(SerialStage):
    """A linear stage on one axis of a GRBL board."""

    _settings: GrblSettings

    def __init__(
        self,
        settings: GrblSettings,
        clock: Clock,
        *,
        open_line: Callable[[], Line] | None = None,
        log: TrafficLog | None = None,
        confirm_homing: Callable[[], bool] | None = None,
    ) -> None:
        super().__init__(
            settings, clock, open_line=open_line, log=log, confirm_homing=confirm_homing
        )
        self._index = AXES.index(settings.axis)
        self._identity: BoardIdentity | None = None
        self._axis: Axis | None = None
        self._offset_mm = 0.0
        self._origin_mm = nan
        """The machine coordinate of where it stands after homing."""
        self._home_mm = nan
        """The same, known even while the position is not."""
        self._target_mm = nan
        self._span_mm = (nan, nan)
        """Between these it must be, by what it was sent to do since it was last seen standing."""
        self._idle_since_s: float | None = None
        self._seen_at_s = -inf
        """When it was last seen standing where it was to be."""
        # What the board was last heard to say.
        self._banner: Banner | None = None
        self._alarm: Alarm | None = None
        self._locked_by: Alarm | None = None
        """The alarm that was up when a handshake began."""
        self._axes_told = 0
        self._offsets_told: tuple[tuple[float, ...], ...] = ()
        """The last two offsets of the work coordinates: one that was told once may be garbled."""
        self._owed = 0
        """Lines whose `ok` or `error` is still to come."""
        self._unanswered = 0
        """Status queries whose report is still to come, if it comes at all."""

    # -- What is known of it ------------------------------------------------------------------

    @property
    def identity(self) -> BoardIdentity:
        """Get what the board says of itself; known once it is connected."""
        return self._known(self._identity)

    @property
    def identity_parts(self) -> dict[str, str]:
        return self.identity.parts(self._settings.axis)

    @property
    def axis(self) -> Axis:
        """Get what the board says of its axis; known once it is connected."""
        return self._known(self._axis)

    # -- Connecting ---------------------------------------------------------------------------

    def _begin_handshake(self) -> None:
        self._locked_by, self._alarm, self._banner = self._alarm, None, None

    def _greet(self, deadline_s: float) -> None:
        self._await_banner(deadline_s)

    def _await_banner(self, deadline_s: float) -> bool:
        """Wait for the board to start; boot text and errors may come before."""
        until = min(deadline_s, self._clock.now() + _BANNER_WAIT_S)
        while (report := self._next(until)) is not None:
            if isinstance(report, Banner):
                return True
        return False

    def _reset(self, deadline_s: float) -> bool:
        """Soft-reset the board; whether its banner came."""
        self._owed = self._unanswered = 0
        self._send(RESET, deadline_s)
        return self._await_banner(deadline_s)

    def _settle(self, deadline_s: float) -> None:
        """Get the board, whatever it is doing, to Idle or Alarm after a fresh start."""
        status: Status | None = None
        for attempt in range(3):
            status = self._ask_status(min(deadline_s, self._clock.now() + _ANSWER_S))
            if self._banner is not None and status is not None:
                if status.state in ("Idle", "Alarm"):
                    return
            elif status is not None and status.state in ("Run", "Jog"):
                self._hold(min(deadline_s, self._clock.now() + _STOP_S))
            # A board that is locked by a limit hears a reset, and nothing else; one that has just
            # locked itself does not even hear the first.
            heard = self._reset(deadline_s) or status is not None
            if self._clock.now() >= deadline_s or (attempt > 0 and not heard):
                break
        if status is not None:
            raise StageError(f"{self._settings.port}: the board stays in {status.state}")
        if 0 < self._axes_told <= self._index:
            told = " ".join(AXES[: self._axes_told])
            raise ConfigError(
                f"stage.axis = {self._settings.axis!r}: the board has the axes {told} only; "
                "set stage.axis to one of them"
            )
        raise StageError(
            f"{self._settings.port}: no GRBL board answers at {self._settings.baud_rate} baud; "
            'is it the right port and preset (stage.driver is "grbl"), is stage.baud_rate right, '
            "is the board powered?"
        )

    def _identify(self, deadline_s: float) -> None:
        known = self._identity
        build_known = None if known is None else (known.version, known.options)
        version, options = self._told_twice(self._read_build, build_known, deadline_s)
        settings_known = None if known is None else known.settings
        settings = self._told_twice(self._read_settings, settings_known, deadline_s)
        dialect = self._banner.dialect if self._banner else "Grbl"
        if known is not None and known.settings != settings:
            changed = sorted({number for number, _ in known.settings.items() ^ settings.items()})
            self._give_up(
                "the board came back with other settings ("
                + ", ".join(f"${number}" for number in changed[:8])
                + "); is it another one? Start again"
            )
        identity = BoardIdentity(dialect, version, options, settings)
        self._axis = read_axis(identity, self._settings)
        self._identity = identity

    def _told_twice(
        self, read: Callable[[float], _Facts | None], known: _Facts | None, deadline_s: float
    ) -> _Facts:
        """What a board says of itself, once it says the same twice, or what it has said before.

        There are no checksums: a byte may be spoilt, or an answer be cut short.
        """
        before = known
        for _ in range(_READINGS):
            told = read(deadline_s)
            if told is not None and told == before:
                return told
            before = told
            if self._clock.now() >= deadline_s:
                break
        if before is None:
            raise StageError(f"{self._settings.port}: the board does not tell its settings in time")
        raise StageError(
            f"{self._settings.port}: the board says something else every time it is asked for its "
            "settings; is there noise on the line?"
        )

    def _read_build(self, deadline_s: float) -> tuple[str, str] | None:
        """Its version and options; None if the answer did not end in time."""
        said = self._command(b"$I", deadline_s)
        if said is None:
            return None
        version, options = self._banner.version if self._banner else "", ""
        for report in said:
            if isinstance(report, Message) and report.kind == "VER":
                version = report.text.partition(":")[0]
            elif isinstance(report, Message) and report.kind == "OPT":
                options = report.text.partition(",")[0]
        return version, options

    def _read_settings(self, deadline_s: float) -> dict[int, float] | None:
        """Its settings by number; None if the answer did not end in time."""
        said = self._command(b"$$", deadline_s)
        if said is None:
            return None
        return {each.number: each.value for each in said if isinstance(each, Setting)}

    def _time_answers(self, deadline_s: float) -> None:
        """Time what a move takes: reports, and lines of its length with nothing but a comment."""
        comment = b"(" + b"-" * (len(_move_lines(self._settings.axis, -100.0, 100.0)) - 4) + b")"
        answered = lost = 0

        def measure() -> Parts:
            nonlocal answered, lost
            while True:
                asked = self._clock.now()
                until = min(deadline_s, asked + _ANSWER_S)
                is_told = self._ask_status(until) is not None
                heard = self._clock.now()
                if is_told and self._answers(comment + b"\n\n", 2, until) is not None:
                    answered += 1
                    return heard - asked, self._clock.now() - heard
                lost += 1
                if lost > _LOST_SAMPLES or self._clock.now() >= deadline_s:
                    raise StageError(
                        f"{self._settings.port}: the board has left {lost} of {answered + lost} "
                        "questions unanswered; is the cable sound, does another program read the "
                        "port?"
                    )

        self._answer_times = measure_until_stable(measure, _TIMED_EXCHANGES)

    def _latency_from(self, answers_s: Parts) -> float:
        """A report before, the lines, and a report after, which comes while it settles."""
        report_s, lines_s = answers_s
        after_s = max(report_s - self._settings.settling_s, 0.0)
        return report_s + lines_s + _PLANNING_S + after_s

    def _describe(self) -> StageDescription:
        axis, settings = self.axis, self._settings
        step = axis.step_mm
        self._offset_mm = ceil(settings.offset_mm / step - 1e-9) * step
        travel = axis.usable_mm - self._offset_mm
        if settings.travel_mm != "auto":
            travel = min(travel, settings.travel_mm)
        speed = settings.speed_mm_per_s
        return StageDescription(
            name=os.path.realpath(settings.port),
            travel_mm=floor(travel / step + 1e-9) * step,
            step_mm=step,
            speed_mm_per_s=axis.speed_mm_per_s if speed == "auto" else speed,
            acceleration_mm_per_s2=axis.acceleration_mm_per_s2,
            latency_s=self._latency_from(self._answer_times.usual),
            settling_s=settings.settling_s,
            tolerance_mm=_REPORT_MM,
        )

    # -- Homing -------------------------------------------------------------------------------

    @property
    def _homing_time_s(self) -> float:
        return self.axis.homing_time_s

    def _run_homing(self, deadline_s: float) -> None:
        which, axis = self._settings.homing_command, self._settings.axis
        alone = which == "axis" or (which == "auto" and "H" in self.identity.options)
        self._send(f"$H{axis if alone else ''}\n".encode("ascii"), deadline_s, answers=1)
        while self._owed:
            report = self._next(deadline_s)
            if report is None:
                raise StageError(f"{self._settings.port}: the board does not answer homing in time")
            if isinstance(report, Failure):
                raise StageError(f"the board refuses to home: {report}")
        home = self._see_home(deadline_s)
        self._check_home(home)
        self._origin_mm = self._home_mm = home
        self._stand_at(self._to_rail(home))

    def _see_home(self, deadline_s: float) -> float:
        """Where the board says it stands after homing (mm), once two reports in a row agree.

        The whole rail is counted from there, and nothing else would show a digit that was garbled.
        """
        before, axis = nan, self._settings.axis
        for _ in range(_REPORTS_OF_HOME):
            status = self._ask_status(min(deadline_s, self._clock.now() + _ANSWER_S))
            if status is None:
                continue
            if status.state != "Idle":
                raise StageError(f"after homing the board should be Idle, and says {status.state}")
            if axis in status.pins:
                raise StageError(f"the {axis} limit switch is closed after homing; raise $27")
            home = self._machine_mm(status)
            if home == before:
                return home
            before = home
        raise StageError("after homing the board does not say twice in a row where it stands")

    def _break_off_homing(self) -> None:
        self._send(RESET)

    def _check_home(self, machine_mm: float) -> None:
        """GRBL's zero is at the positive end: that tells to which end it has really gone.

        A dialect may have it elsewhere, but at the same place every time, and not so far away
        that the single-precision numbers of these boards leave out steps.
        """
        axis = self.axis
        tolerance = 2 * axis.step_mm + _REPORT_MM
        if abs(machine_mm - self._home_mm) > tolerance:  # never the first time: that is NaN
            raise StageError(
                f"after homing the board says {machine_mm:.3f} mm, and the time before it said "
                f"{self._home_mm:.3f} mm; look at the switch and what the board reports"
            )
        if abs(machine_mm) > axis.step_mm * 2**23:
            raise StageError(
                f"after homing the board says {machine_mm:.3f} mm, where its numbers do not "
                f"resolve a step of {axis.step_mm:g} mm; correct its $100, or where it has its zero"
            )
        at_positive = abs(machine_mm + axis.pull_off_mm) <= tolerance
        at_negative = abs(machine_mm + axis.travel_mm - axis.pull_off_mm) <= tolerance
        if at_positive != at_negative and at_positive != axis.homes_positive:
            raise StageError(
                f"after homing the board says {machine_mm:.3f} mm, which is the other end than "
                "$23 or stage.homing_direction tell; correct them"
            )

    # -- The Stage protocol -------------------------------------------------------------------

    def move_to(self, position_mm: float, deadline_s: float) -> Arrival:
        """Move to a position (mm) and wait for the arrival, at the longest until the deadline."""
        self._refuse_if_lost()
        self._refuse_if_not_homed()
        self._refuse_off_rail(position_mm)
        self._drain()
        if self._owed:
            raise StageError("the stage is still busy with an earlier move")
        self._see_standing(deadline_s)
        target = min(max(position_mm, 0.0), self.description.travel_mm)
        speed = self.description.speed_mm_per_s
        self._span_mm = (min(self._reported_mm, target), max(self._reported_mm, target))
        self._still_at_s, self._target_mm, self._idle_since_s = inf, target, None
        self._seen_at_s = -inf
        lines = _move_lines(self._settings.axis, self._to_machine(target), speed)
        self._send(lines, deadline_s, answers=2)
        refusal: Failure | None = None
        while self._owed:
            report = self._next(deadline_s)
            if report is None:
                return Arrival(self._reported_mm, False, self._clock.now())
            if isinstance(report, Failure):
                if self._owed:  # the motion itself: it does not take place
                    self._target_mm = self._reported_mm
                refusal = refusal or report
        self._still_at_s = self._clock.now() + self._settings.settling_s
        if refusal is not None:
            # grblHAL refuses everything until it has seen an empty line.
            self._send(b"\n", deadline_s, answers=1)
            while self._owed and self._next(deadline_s) is not None:
                pass
            raise StageError(f"the board refuses to move to {target:.4f} mm: {refusal}")
        return self._see_arrival(deadline_s)

    def _see_standing(self, deadline_s: float) -> None:
        """Have the board say, before a move, that it stands where it was last said to be.

        Another hand, on a pendant or a web page, may have moved it; nothing else would tell.
        """
        asked = self._clock.now()
        if asked - self._seen_at_s <= _FRESH_S:
            return
        status = self._ask_status(deadline_s)
        if status is None:
            self._note_silence(asked)
        said = self._reported_mm
        self._believe(status)
        if not self._is_at_target(status):
            raise StageError(
                f"the board says {status.state} at {self._reported_mm:.4f} mm, and its last move "
                f"was to end at {self._target_mm:.4f} mm: it moves, or may be about to"
            )
        self._refuse_if_moved_from(said)

    def _see_arrival(self, deadline_s: float) -> Arrival:
        """Have the position reported while the antenna settles: an `ok` alone is no arrival."""
        while self._clock.now() < deadline_s:
            status = self._ask_status(deadline_s)
            if status is None:
                break
            self._believe(status)
            if self._is_at_target(status):
                self._take_for_standing()
                self._clock.sleep_until(min(self._still_at_s, deadline_s))
                now = self._clock.now()
                arrived = self._still_at_s <= now
                return Arrival(self._reported_mm, arrived, min(self._still_at_s, now))
            # That `ok` was a straggler of something else: the last one is still to come.
            self._owed, self._still_at_s = 1, inf
            while self._owed:
                if self._next(deadline_s) is None:
                    return Arrival(self._reported_mm, False, self._clock.now())
            self._still_at_s = self._clock.now() + self._settings.settling_s
        return Arrival(self._reported_mm, False, self._clock.now())

    def _is_at_target(self, status: Status) -> bool:
        """Whether a report that was just believed is of a stand where the last move was to end."""
        is_near = self.description.is_near(self._reported_mm, self._target_mm)
        return is_near and status.state == "Idle"

    def where(self, deadline_s: float) -> Arrival:
        """Measure the position (mm) now; `arrived` says whether the stage stands still."""
        self._refuse_if_lost()
        asked = self._clock.now()
        status = self._ask_status(deadline_s)
        if status is None:
            self._note_silence(asked)
        self._silent_since_s = None
        self._refuse_if_not_homed()
        self._believe(status)
        is_there = self._is_at_target(status)
        if status.state == "Idle" and (self._owed or not is_there):
            self._await_stragglers(deadline_s)
        else:
            self._idle_since_s = None
        now = self._clock.now()
        stands = is_there and not self._owed
        if stands:
            self._take_for_standing()
        if stands and self._still_at_s == inf:
            self._still_at_s = now + self._settings.settling_s
        return Arrival(self._reported_mm, stands and now >= self._still_at_s, now)

    def _believe(self, status: Status) -> None:
        """Take over a reported position, unless the board is in a state that voids it."""
        if status.state == "Alarm":
            self._lose("the board is locked by an alarm")
        position, slack = self._to_rail(self._machine_mm(status)), self.axis.step_mm + _REPORT_MM
        if not self._span_mm[0] - slack <= position <= self._span_mm[1] + slack:
            self._lose(
                f"the board says that it is at {position:.3f} mm, where it was never sent: it was "
                "reset, or moved by somebody else"
            )
        self._reported_mm = position
        if status.state not in ("Idle", "Run"):
            raise StageError(f"the stage is held up: the board says {status.state}")

    def _stand_at(self, position_mm: float) -> None:
        self._reported_mm = self._target_mm = position_mm
        self._take_for_standing()

    def _take_for_standing(self) -> None:
        """From now on it must be where it has just been reported."""
        self._span_mm = (self._reported_mm, self._reported_mm)
        self._seen_at_s = self._clock.now()

    def _await_stragglers(self, deadline_s: float) -> None:
        """An idle board that owes answers has not begun yet, or they were garbled: which?

        At the target the motion is over. Elsewhere it would have begun by the time that a board
        may be silent; but the board may have it still, and begin when the next one is sent. So it
        may even if nothing is owed: what came may have been the answers to something else.
        """
        now = self._clock.now()
        if self._idle_since_s is None:
            self._idle_since_s = now
        until = min(deadline_s, now + _STRAGGLER_S)
        while self._owed:
            if self._next(until) is None:
                break
        waited = self._clock.now() - self._idle_since_s
        if self.description.is_near(self._reported_mm, self._target_mm):
            self._owed = 0 if waited >= _STRAGGLER_S - 1e-6 else self._owed
        elif waited >= _NOT_BEGUN_S - 1e-6:
            self._lose("the board has neither begun nor refused a move")

    def stop(self) -> None:
        """Stop the motion at once: decelerate, then drop the rest. The position is kept."""
        if self._line is None:
            return
        if self._lost is not None:
            self._send(FEED_HOLD + RESET)
            return
        self._drain()
        if not self._owed:
            status = self._ask_status(self._clock.now() + _ANSWER_S)
            if status is not None and self._is_at_rest(status):
                return
        held = self._hold(self._clock.now() + _STOP_S)
        if held is None:
            self._send(RESET)
            self._lose("it could not be stopped in good order")
        origin, homed_at = self._origin_mm, self._homed_at_s
        with self._handshake("it is being stopped"):
            back = self._reset(self._clock.now() + _BANNER_WAIT_S)
            after = self._ask_status(self._clock.now() + _ANSWER_S) if back else None
        if self._alarm is not None:
            self._lose(str(self._alarm))
        if after is None or after.state != "Idle":
            self._lose("it could not be stopped in good order")
        if not self.description.is_near(self._machine_mm(after), self._machine_mm(held)):
            self._lose("its position changed when it was stopped")
        self._lost, self._origin_mm, self._homed_at_s = None, origin, homed_at
        self._stand_at(self._to_rail(self._machine_mm(after)))

    def _is_at_rest(self, status: Status) -> bool:
        """Whether nothing has to be stopped, nor a move dropped that has not begun yet."""
        if not self.is_homed:
            return status.state in ("Idle", "Alarm")
        position = self._to_rail(self._machine_mm(status))
        is_near = self.description.is_near(position, self._target_mm)
        return status.state == "Alarm" or (status.state == "Idle" and is_near)

    def _hold(self, deadline_s: float) -> Status | None:
        """Decelerate to a stand; the report of it, or None if there was none in time."""
        self._send(FEED_HOLD, deadline_s)
        while self._clock.now() < deadline_s:
            status = self._ask_status(min(deadline_s, self._clock.now() + _ANSWER_S))
            if status is None:
                return None
            if status.stands:
                return status
            self._clock.sleep_until(self._clock.now() + _POLL_S)
        return None

    def _is_well(self, deadline_s: float) -> bool:
        status = self._ask_status(deadline_s)
        return status is not None and status.state in ("Idle", "Run")

    def _free(self, deadline_s: float) -> None:
        if self._locked_by is not None and self._locked_by.code in CRITICAL_ALARMS:
            self._await_call_for_reset(deadline_s)
            self._reset(deadline_s)

    def _await_call_for_reset(self, deadline_s: float) -> None:
        """After a limit alarm a reset is heard only once the board has asked for it."""
        until = min(deadline_s, self._clock.now() + _ALARM_MESSAGE_S)
        while (report := self._next(until)) is not None:
            if isinstance(report, Message) and "Reset to continue" in report.text:
                return

    # -- Talking ------------------------------------------------------------------------------

    def _command(self, text: bytes, deadline_s: float) -> list[Report] | None:
        """Send one line, and get everything that is said up to its `ok`; None if none comes."""
        said = self._answers(text + b"\n", 1, min(deadline_s, self._clock.now() + _COMMAND_S))
        for report in said or ():
            if isinstance(report, Failure):
                raise StageError(f"the board refuses {text.decode('ascii')}: {report}")
        return said

    def _answers(self, lines: bytes, count: int, deadline_s: float) -> list[Report] | None:
        """Send lines, and get what is said until all are answered; None if they are not in time."""
        self._drain()
        self._send(lines, deadline_s, answers=count)
        said: list[Report] = []
        while self._owed:
            report = self._next(deadline_s)
            if report is None:
                self._owed = 0
                return None
            if isinstance(report, Banner):
                raise RestartedError(
                    f"{self._settings.port}: the board was reset while it was being asked"
                )
            said.append(report)
        return said

    def _ask_status(self, deadline_s: float) -> Status | None:
        """Ask for a report of this moment; None if there is none by the deadline."""
        self._drain()
        if self._unanswered and not self._owed:
            # The report of an earlier query may still be under way. It comes before the answer
            # to an empty line, so that whatever comes after is new.
            self._send(b"\n", deadline_s, answers=1)
            while self._owed:
                if self._next(deadline_s) is None:
                    return None
        self._send(STATUS_QUERY, deadline_s)
        self._unanswered = 1
        while (report := self._next(deadline_s)) is not None:
            if isinstance(report, Status):
                self._axes_told = max(len(report.machine), len(report.work))
                if self._axes_told <= self._index:
                    return None
                located = self._in_machine_coordinates(report)
                if located is not None:
                    return located
                # A work position says nothing before its offset is sure; it is told now and then.
                self._send(STATUS_QUERY, deadline_s)
                self._unanswered = 1
        return None

    def _in_machine_coordinates(self, report: Status) -> Status | None:
        """A report with the position of the machine; None if that does not follow from it."""
        told = self._offsets_told
        offset = told[-1] if len(told) == 2 and told[0] == told[1] else ()
        if self._index < len(report.machine):
            return report
        if self._index < min(len(report.work), len(offset)):
            machine = (work + zero for work, zero in zip(report.work, offset, strict=False))
            return replace(report, machine=tuple(machine))
        return None

    def _drain(self) -> None:
        """Take in what has been said meanwhile."""
        now = self._clock.now()
        while self._next(now) is not None:
            pass

    def _next(self, deadline_s: float) -> Report | None:
        """Get the next report. An unexpected banner or alarm makes the position unknown."""
        line = self._read_line(deadline_s)
        if line is None:
            return None
        report = parse(line)
        if isinstance(report, Ok | Failure | Status):
            self._silent_since_s = None  # late perhaps, but it answers
        if isinstance(report, Ok | Failure):
            self._owed = max(self._owed - 1, 0)
        elif isinstance(report, Status):
            self._unanswered = 0
            if report.work_offset:
                self._offsets_told = (*self._offsets_told[-1:], report.work_offset)
        elif isinstance(report, Banner):
            self._banner, self._owed, self._unanswered = report, 0, 0
            self._offsets_told = ()
            if not self._in_handshake:
                self._lose("the board was reset in mid-run")
        elif isinstance(report, Alarm):
            self._alarm = report
            if not self._in_handshake:
                if report.code == HARD_LIMIT:  # often it is noise on the switch's wire
                    self._complaint = (
                        f"{report}; it is the second time: check the switch and its wiring"
                    )
                self._lose(str(report))
        return report

    def _send(self, data: bytes, deadline_s: float = inf, *, answers: int = 0) -> None:
        self._write(data, deadline_s)
        self._owed += answers

    def _forget_position(self, why: str | None) -> None:
        super()._forget_position(why)
        self._origin_mm = nan
        self._span_mm = (nan, nan)
        self._seen_at_s = -inf
        self._owed = self._unanswered = 0

    # -- Coordinates --------------------------------------------------------------------------

    def _machine_mm(self, status: Status) -> float:
        """The machine coordinate of a report, in whole steps where the report is that exact."""
        reported = status.machine[self._index]
        steps = self.axis.steps_per_mm
        return round(reported * steps) / steps if steps < 500 else reported

    def _to_rail(self, machine_mm: float) -> float:
        away = -1.0 if self.axis.homes_positive else 1.0
        position = (machine_mm - self._origin_mm) * away - self._offset_mm
        position = self.description.travel_mm - position if self._settings.inverted else position
        return position + 0.0

    def _to_machine(self, position_mm: float) -> float:
        away = -1.0 if self.axis.homes_positive else 1.0
        along = self.description.travel_mm - position_mm if self._settings.inverted else position_mm
        return self._origin_mm + away * (along + self._offset_mm)


def _move_lines(axis: str, machine_mm: float, speed_mm_per_s: float) -> bytes:
    """A motion that is complete in itself, and the dwell that is answered when it is over."""
    feed = f"G21G90G94G53G1{axis}{machine_mm:.4f}F{speed_mm_per_s * 60:.1f}"
    return f"{feed}\nG4P0\n".encode("ascii")
