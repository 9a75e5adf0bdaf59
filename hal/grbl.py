"""A stage driven by a GRBL 1.1 board, or one of its dialects (grblHAL, FluidNC).

One motion is in flight at a time. A move is sent as two lines, the motion and `G4 P0`: a board
answers the first when it has planned the motion and the second when the motion is over. Where the
carriage is, is believed only between a homing and the next banner, alarm or loss of connection:
each of those makes the position unknown, and an unknown position is never moved from.

Distances along the rail are counted from where the carriage stands after homing, so neither the
sign of the machine's coordinates, nor the pull-off, nor where a dialect puts its zero matters.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import ceil, floor, inf, isfinite, nan
from statistics import median
from typing import NoReturn, TypeVar

from macontrol.config.stage_settings import StageSettings
from macontrol.hal.clock import Clock
from macontrol.hal.grbl_board import AXES, Axis, BoardIdentity, read_axis
from macontrol.hal.grbl_protocol import (
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
from macontrol.hal.serial_line import (
    Line,
    LineLostError,
    SerialLine,
    TrafficLog,
    open_with_back_off,
)
from macontrol.hal.stage import Arrival, StageDescription, StageError, StageLostError

ROUNDING_MM = 1e-6
"""Commands may exceed the rail by this much of rounding; they are then taken back to its end."""

_BANNER_WAIT_S = 2.5
_ANSWER_S = 1.0
_COMMAND_S = 3.0
_STOP_S = 5.0
_POLL_S = 0.02
_CLOSED_S = 0.5
_LATENCY_SAMPLES = 12
# GRBL is deaf for half a second after an alarm: a reset sent before its message is swallowed.
_ALARM_MESSAGE_S = 1.5
# A board that has not answered for so long is taken for lost.
_SILENCE_S = 1.0
# How long after a report of Idle at the target an outstanding `ok` may still come.
_STRAGGLER_S = 0.1
# What a motion costs beyond its own length and the answer to an empty line: planning before the
# first step, GRBL's motion in segments of 10 ms, the answer to the dwell.
_PLANNING_S = 0.015
# A second hard-limit alarm within this time is not noise any more.
_PARDON_S = 600.0

_Fact = TypeVar("_Fact")


class GrblStage:
    """A linear stage on one axis of a GRBL board. Not for use by two threads at once."""

    def __init__(
        self,
        settings: StageSettings,
        clock: Clock,
        *,
        open_line: Callable[[], Line] | None = None,
        log: TrafficLog | None = None,
        confirm_homing: Callable[[], bool] | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._open_line = open_line or (lambda: self._open_port(log))
        self._confirm_homing = confirm_homing
        self._index = AXES.index(settings.axis)
        self._line: Line | None = None
        self._identity: BoardIdentity | None = None
        self._axis: Axis | None = None
        self._description: StageDescription | None = None
        self._latencies_s: tuple[float, ...] = ()
        self._offset_mm = 0.0
        # What is known of the position. A lost stage must be recovered; one that is not homed
        # has no origin.
        self._lost: str | None = "it is not connected"
        self._given_up: str | None = None
        self._origin_mm = nan
        self._homed_at_s = -inf
        self._reported_mm = nan
        self._target_mm = nan
        self._still_at_s = -inf
        self._idle_since_s: float | None = None
        # What the board was last heard to say.
        self._in_handshake = False
        self._banner: Banner | None = None
        self._alarm: Alarm | None = None
        self._hard_limit_at_s = -inf
        self._work_offset: tuple[float, ...] = ()
        self._owed = 0
        """Lines whose `ok` or `error` is still to come."""
        self._unanswered = 0
        """Status queries whose report is still to come, if it comes at all."""
        self._silent_since_s: float | None = None

    # -- What is known of it ------------------------------------------------------------------

    @property
    def description(self) -> StageDescription:
        """Get what the stage is and can do; known once it is connected."""
        return self._known(self._description)

    @property
    def identity(self) -> BoardIdentity:
        """Get what the board says of itself; known once it is connected."""
        return self._known(self._identity)

    @property
    def axis(self) -> Axis:
        """Get what the board says of its axis; known once it is connected."""
        return self._known(self._axis)

    @property
    def latencies_s(self) -> tuple[float, ...]:
        """Get how long the board took to answer lines without a motion, when it was connected."""
        return self._latencies_s

    @property
    def _usual_latency_s(self) -> float:
        """The median: the hiccups of a busy computer are no property of the board."""
        return median(self._latencies_s)

    @property
    def is_homed(self) -> bool:
        """Get whether the position is known."""
        return self._lost is None and isfinite(self._origin_mm)

    @property
    def rehoming_is_due(self) -> bool:
        """Get whether it is time to home again, as lost steps do not show in any report."""
        every = self._settings.rehome_every_s
        return every != "off" and self._clock.now() - self._homed_at_s >= every

    # -- Connecting ---------------------------------------------------------------------------

    def connect(self, deadline_s: float) -> None:
        """Open the port, wait for the board, free it of what it is stuck in, read its settings.

        A locked board stays locked: nothing moves before `home`.
        """
        self._close_line()
        self._line = self._open_line()
        self._meet(deadline_s)

    def _meet(self, deadline_s: float) -> None:
        """Get to know a board behind a port that was just opened."""
        with self._handshake("it is being connected"):
            try:
                self._await_banner(deadline_s)
                self._settle_state(deadline_s)
                self._identify(deadline_s)
                self._latencies_s = self._measure_latencies(deadline_s)
                self._description = self._describe()
            except BaseException:
                self._close_line()
                raise
        self._lost = None

    @contextmanager
    def _handshake(self, why: str) -> Iterator[None]:
        """A stretch in which the position is unknown, and banners and alarms are expected."""
        self._forget_position(why)
        self._in_handshake, self._banner, self._alarm = True, None, None
        try:
            yield
        finally:
            self._in_handshake = False

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
        self._send(RESET)
        return self._await_banner(deadline_s)

    def _settle_state(self, deadline_s: float) -> None:
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
        raise StageError(
            f"{self._settings.port}: no GRBL board answers at {self._settings.baud_rate} baud; "
            "is it the right port, is stage.baud_rate right, is the board powered?"
        )

    def _identify(self, deadline_s: float) -> None:
        version, options = self._banner.version if self._banner else "", ""
        for report in self._command(b"$I", deadline_s):
            if isinstance(report, Message) and report.kind == "VER":
                version = report.text.partition(":")[0]
            elif isinstance(report, Message) and report.kind == "OPT":
                options = report.text.partition(",")[0]
        said = self._command(b"$$", deadline_s)
        settings = {each.number: each.value for each in said if isinstance(each, Setting)}
        dialect = self._banner.dialect if self._banner else "Grbl"
        if self._identity is not None and self._identity.settings != settings:
            before = self._identity.settings.items()
            changed = sorted({number for number, _ in before ^ settings.items()})
            self._give_up(
                "the board came back with other settings ("
                + ", ".join(f"${number}" for number in changed[:8])
                + "); is it another one? Start again"
            )
        identity = BoardIdentity(dialect, version, options, settings)
        self._axis = read_axis(identity, self._settings)
        self._identity = identity

    def _measure_latencies(self, deadline_s: float) -> tuple[float, ...]:
        """Time lines that are as long as a move's and hold only a comment: they move nothing."""
        comment = b"(" + b"-" * (len(_move_lines(self._settings.axis, -100.0, 100.0)) - 4) + b")"
        samples = []
        for _ in range(_LATENCY_SAMPLES):
            sent = self._clock.now()
            self._send(comment + b"\n\n", answers=2)
            while self._owed:
                self._demand(deadline_s, "a comment")
            samples.append(self._clock.now() - sent)
        return tuple(samples)

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
            latency_s=self._usual_latency_s + _PLANNING_S,
            settling_s=settings.settling_s,
        )

    # -- Homing -------------------------------------------------------------------------------

    def home(self, deadline_s: float) -> None:
        """Find the limit switch, if homing is allowed; afterwards the position is known.

        The carriage then stands at the end of the usable rail that is nearer to the switch.
        """
        self._refuse_if_lost()
        self._ask_leave_to_home()
        self._forget_position(None)
        try:
            status = self._run_homing(min(deadline_s, self._clock.now() + self.axis.homing_time_s))
        except BaseException:
            # A motor that seeks its switch is not left to itself, whatever has happened.
            self._lost = self._lost or "homing failed"
            with suppress(StageError):
                self._send(RESET)
            raise
        self._origin_mm = self._machine_mm(status)
        self._homed_at_s = self._clock.now()
        self._reported_mm = self._to_rail(self._origin_mm)
        if self._offset_mm > 0:
            end = self.description.travel_mm if self._settings.inverted else 0.0
            if not self.move_to(end, deadline_s).arrived:
                raise StageError("the carriage did not get from its switch to the usable rail")

    def _ask_leave_to_home(self) -> None:
        if self._settings.homing == "never":
            raise StageError(
                'the stage must be homed before it moves, and stage.homing = "never" forbids it'
            )
        if self._settings.homing == "ask" and not (
            self._confirm_homing is not None and self._confirm_homing()
        ):
            raise StageError(
                "the stage must be homed before it moves, and nobody has agreed to it: "
                'stage.homing is "ask"; agree when asked, or set it to "allow"'
            )

    def _run_homing(self, deadline_s: float) -> Status:
        which, axis = self._settings.homing_command, self._settings.axis
        alone = which == "axis" or (which == "auto" and "H" in self.identity.options)
        self._send(f"$H{axis if alone else ''}\n".encode("ascii"), answers=1)
        while self._owed:
            report = self._demand(deadline_s, "homing")
            if isinstance(report, Failure):
                raise StageError(f"the board refuses to home: {report}")
        status = self._ask_status(min(deadline_s, self._clock.now() + _ANSWER_S))
        if status is None or status.state != "Idle":
            state = "nothing" if status is None else status.state
            raise StageError(f"after homing the board should be Idle, and says {state}")
        if axis in status.pins:
            raise StageError(f"the {axis} limit switch is closed after homing; raise $27")
        self._check_direction(self._machine_mm(status))
        return status

    def _check_direction(self, machine_mm: float) -> None:
        """GRBL's zero is at the positive end: that tells to which end it has really gone."""
        axis = self.axis
        tolerance = 2 * axis.step_mm + 2e-3
        at_positive = abs(machine_mm + axis.pull_off_mm) <= tolerance
        at_negative = abs(machine_mm + axis.travel_mm - axis.pull_off_mm) <= tolerance
        if at_positive != at_negative and at_positive != axis.homes_positive:
            raise StageError(
                f"after homing the board says {machine_mm:.3f} mm, which is the other end than "
                "$23 or stage.homing_direction tell; correct them"
            )

    def take_position(self, position_mm: float) -> None:
        """Take a person's word for where the carriage is, on a stage without a switch."""
        self._refuse_if_lost()
        if not 0.0 <= position_mm <= self.description.travel_mm:
            raise StageError(f"{position_mm!r} mm is not on the rail")
        status = self._ask_status(self._clock.now() + _ANSWER_S)
        if status is None or status.state != "Idle":
            raise StageError("the board must be idle to be told where it is; unlock it first ($X)")
        self._origin_mm = 0.0
        self._origin_mm = self._machine_mm(status) - self._to_machine(position_mm)
        self._homed_at_s = self._clock.now()
        self._reported_mm = position_mm

    # -- The Stage protocol -------------------------------------------------------------------

    def move_to(self, position_mm: float, deadline_s: float) -> Arrival:
        """Move to a position (mm) and wait for the arrival, at the longest until the deadline."""
        self._refuse_if_lost()
        if not self.is_homed:
            raise StageError("the stage is not homed: its position is not known")
        travel = self.description.travel_mm
        if not -ROUNDING_MM <= position_mm <= travel + ROUNDING_MM:  # nor does NaN pass
            raise StageError(f"{position_mm!r} mm is off the rail [0, {travel:g}]")
        self._drain()
        if self._owed:
            raise StageError("the stage is still busy with an earlier move")
        target = min(max(position_mm, 0.0), travel)
        speed = self.description.speed_mm_per_s
        self._still_at_s, self._target_mm, self._idle_since_s = inf, target, None
        self._send(_move_lines(self._settings.axis, self._to_machine(target), speed), answers=2)
        refusal: Failure | None = None
        while self._owed:
            report = self._next(deadline_s)
            if report is None:
                return Arrival(self._reported_mm, False, self._clock.now())
            if isinstance(report, Failure):
                refusal = refusal or report
        self._still_at_s = self._clock.now() + self._settings.settling_s
        if refusal is not None:
            self._send(b"\n", answers=1)  # grblHAL refuses everything until it has seen one
            while self._owed and self._next(deadline_s) is not None:
                pass
            raise StageError(f"the board refuses to move to {target:.4f} mm: {refusal}")
        return self._see_arrival(target, deadline_s)

    def _see_arrival(self, target: float, deadline_s: float) -> Arrival:
        """Have the position reported while the antenna settles, if there is time for it."""
        self._reported_mm = target
        if self._clock.now() + self._usual_latency_s < deadline_s:
            status = self._ask_status(deadline_s)
            if status is not None:
                self._believe(status)
                if status.state == "Run":  # so that `ok` was a straggler of something else
                    self._owed, self._still_at_s = 1, inf
        self._clock.sleep_until(min(self._still_at_s, deadline_s))
        now = self._clock.now()
        return Arrival(self._reported_mm, self._still_at_s <= now, min(self._still_at_s, now))

    def where(self, deadline_s: float) -> Arrival:
        """Measure the position (mm) now; `arrived` says whether the stage stands still."""
        self._refuse_if_lost()
        asked = self._clock.now()
        status = self._ask_status(deadline_s)
        if status is None:
            self._note_silence(asked)
        self._silent_since_s = None
        if not self.is_homed:
            raise StageError("the stage is not homed: its position is not known")
        self._believe(status)
        if status.state == "Idle" and self._owed:
            self._await_stragglers(deadline_s)
        else:
            self._idle_since_s = None
        now = self._clock.now()
        idle = status.state == "Idle" and not self._owed
        if idle and self._still_at_s == inf:
            self._still_at_s = now + self._settings.settling_s
        return Arrival(self._reported_mm, idle and now >= self._still_at_s, now)

    def _believe(self, status: Status) -> None:
        """Take over a reported position, unless the board is in a state that voids it."""
        if status.state == "Alarm":
            self._lose("the board is locked by an alarm")
        self._reported_mm = self._to_rail(self._machine_mm(status))
        if status.state not in ("Idle", "Run"):
            raise StageError(f"the stage is held up: the board says {status.state}")

    def _await_stragglers(self, deadline_s: float) -> None:
        """An idle board that owes answers has not begun yet, or they were garbled: which?

        At the target the motion is over. Elsewhere it would have begun by the time that a board
        may be silent.
        """
        now = self._clock.now()
        if self._idle_since_s is None:
            self._idle_since_s = now
        until = min(deadline_s, now + _STRAGGLER_S)
        while self._owed:
            if self._next(until) is None:
                waited = self._clock.now() - self._idle_since_s
                at_target = abs(self._reported_mm - self._target_mm) <= self.axis.step_mm + 2e-3
                if waited >= (_STRAGGLER_S if at_target else _SILENCE_S) - 1e-6:
                    self._owed = 0
                return

    def _note_silence(self, asked_s: float) -> NoReturn:
        if self._silent_since_s is None:
            self._silent_since_s = asked_s
        silent = self._clock.now() - self._silent_since_s
        if silent >= _SILENCE_S:
            self._lose(f"the board has not answered for {silent:.1f} s")
        raise StageError(f"{self._settings.port}: the board does not answer")

    def stop(self) -> None:
        """Stop the motion at once: decelerate, then drop the rest. The position is kept."""
        if self._line is None:
            return
        if self._lost is not None:
            self._send(FEED_HOLD + RESET)
            return
        status = self._ask_status(self._clock.now() + _ANSWER_S)
        if status is not None and status.state in ("Idle", "Alarm") and not self._owed:
            return
        held = self._hold(self._clock.now() + _STOP_S)
        origin, homed_at = self._origin_mm, self._homed_at_s
        with self._handshake("it is being stopped"):
            back = self._reset(self._clock.now() + _BANNER_WAIT_S)
            after = self._ask_status(self._clock.now() + _ANSWER_S) if back else None
        if self._alarm is not None:
            self._lose(str(self._alarm))
        if held is None or after is None or after.state != "Idle":
            self._lose("it could not be stopped in good order")
        if abs(self._machine_mm(after) - self._machine_mm(held)) > self.axis.step_mm + 2e-3:
            self._lose("its position changed when it was stopped")
        self._lost, self._origin_mm, self._homed_at_s = None, origin, homed_at
        self._reported_mm = self._to_rail(self._machine_mm(after))

    def _hold(self, deadline_s: float) -> Status | None:
        """Decelerate to a stand; the report of it, or None if there was none in time."""
        self._send(FEED_HOLD)
        while self._clock.now() < deadline_s:
            status = self._ask_status(min(deadline_s, self._clock.now() + _ANSWER_S))
            if status is None:
                return None
            if status.state == "Idle" or (status.state == "Hold" and status.substate in (0, None)):
                return status
            self._clock.sleep_until(self._clock.now() + _POLL_S)
        return None

    def close(self) -> None:
        """Stop, and let go of the port."""
        try:
            with suppress(StageError):
                self.stop()
        finally:
            self._close_line()
            self._forget_position("it is closed")

    def recover(self, deadline_s: float) -> None:
        """Bring the stage back to a known, homed state, or raise StageError."""
        if self._given_up is not None:
            raise StageError(self._given_up)
        if self._is_fine():
            return
        alarm = self._alarm
        if alarm is not None and alarm.code == HARD_LIMIT:
            self._pardon_once(alarm)
        if not self._revive(alarm, deadline_s):
            self._line = open_with_back_off(self._open_line, self._clock, deadline_s)
            self._meet(deadline_s)
        self.home(deadline_s)

    def _is_fine(self) -> bool:
        if not self.is_homed:
            return False
        try:
            status = self._ask_status(self._clock.now() + _ANSWER_S)
        except StageError:
            return False
        return status is not None and status.state in ("Idle", "Run")

    def _pardon_once(self, alarm: Alarm) -> None:
        """A limit that trips alone is often noise on its wire: once. Twice is a fault."""
        now = self._clock.now()
        if now - self._hard_limit_at_s < _PARDON_S:
            self._give_up(f"{alarm}; it is the second time: check the switch and its wiring")
        self._hard_limit_at_s = now

    def _revive(self, alarm: Alarm | None, deadline_s: float) -> bool:
        """Free the board over the connection there is; False if it has to be opened anew."""
        if self._line is None:
            return False
        try:
            with self._handshake(self._lost or "it is being recovered"):
                if alarm is not None and alarm.code in CRITICAL_ALARMS:
                    self._await_call_for_reset(deadline_s)
                    self._reset(deadline_s)
                self._settle_state(deadline_s)
                self._identify(deadline_s)
        except StageError:
            if self._given_up is not None:
                raise
            # A board that hangs is reset by being opened, if it was closed for a while.
            self._close_line()
            self._clock.sleep_until(min(deadline_s, self._clock.now() + _CLOSED_S))
            return False
        self._lost = None
        return True

    def _await_call_for_reset(self, deadline_s: float) -> None:
        """After a limit alarm a reset is heard only once the board has asked for it."""
        until = min(deadline_s, self._clock.now() + _ALARM_MESSAGE_S)
        while (report := self._next(until)) is not None:
            if isinstance(report, Message) and "Reset to continue" in report.text:
                return

    # -- Talking ------------------------------------------------------------------------------

    def _open_port(self, log: TrafficLog | None) -> Line:
        settings = self._settings
        return SerialLine(
            settings.port,
            settings.baud_rate,
            self._clock,
            dtr=settings.dtr,
            rts=settings.rts,
            log=log,
        )

    def _command(self, text: bytes, deadline_s: float) -> list[Report]:
        """Send one line, and get everything that is said up to its `ok`."""
        self._send(text + b"\n", answers=1)
        until = min(deadline_s, self._clock.now() + _COMMAND_S)
        said: list[Report] = []
        while self._owed:
            report = self._demand(until, text.decode("ascii"))
            if isinstance(report, Failure):
                raise StageError(f"the board refuses {text.decode('ascii')}: {report}")
            said.append(report)
        return said

    def _ask_status(self, deadline_s: float) -> Status | None:
        """Ask for a report of this moment; None if there is none by the deadline."""
        self._drain()
        if self._unanswered and not self._owed:
            # The report of an earlier query may still be under way. It comes before the answer
            # to an empty line, so that whatever comes after is new.
            self._send(b"\n", answers=1)
            while self._owed:
                if self._next(deadline_s) is None:
                    return None
        self._send(STATUS_QUERY)
        self._unanswered = 1
        while (report := self._next(deadline_s)) is not None:
            if isinstance(report, Status):
                if self._index < len(report.machine) or (
                    self._index < min(len(report.work), len(self._work_offset))
                ):
                    return report
                self._send(STATUS_QUERY)  # a work position says nothing before its offset is told
        return None

    def _demand(self, deadline_s: float, what: str) -> Report:
        report = self._next(deadline_s)
        if report is None:
            raise StageError(f"{self._settings.port}: the board does not answer {what} in time")
        return report

    def _drain(self) -> None:
        """Take in what has been said meanwhile."""
        while self._next(self._clock.now()) is not None:
            pass

    def _next(self, deadline_s: float) -> Report | None:
        """Get the next report. An unexpected banner or alarm makes the position unknown."""
        if self._line is None:
            self._lose("the connection is closed")
        try:
            line = self._line.read_line(deadline_s)
        except LineLostError as error:
            self._lose_line(error)
        if line is None:
            return None
        report = parse(line)
        if isinstance(report, Ok | Failure):
            self._owed = max(self._owed - 1, 0)
        elif isinstance(report, Status):
            self._unanswered = 0
            self._work_offset = report.work_offset or self._work_offset
        elif isinstance(report, Banner):
            self._banner, self._owed, self._unanswered = report, 0, 0
            if not self._in_handshake:
                self._lose("the board was reset in mid-run")
        elif isinstance(report, Alarm):
            self._alarm = report
            if not self._in_handshake:
                self._lose(str(report))
        return report

    def _send(self, data: bytes, *, answers: int = 0) -> None:
        if self._line is None:
            self._lose("the connection is closed")
        try:
            self._line.write(data)
        except LineLostError as error:
            self._lose_line(error)
        self._owed += answers

    # -- Losing and refusing ------------------------------------------------------------------

    def _known(self, value: _Fact | None) -> _Fact:
        if value is None:
            raise StageError(f"{self._settings.port}: connect first; nothing is known of it yet")
        return value

    def _refuse_if_lost(self) -> None:
        if self._lost is not None:
            raise StageLostError(
                f"{self._settings.port}: {self._lost}; it must be recovered before it moves"
            )

    def _forget_position(self, why: str | None) -> None:
        self._lost = why
        self._origin_mm = self._reported_mm = nan
        self._homed_at_s = -inf
        self._owed = self._unanswered = 0
        self._silent_since_s = None
        self._still_at_s = -inf

    def _lose(self, why: str) -> NoReturn:
        self._forget_position(why)
        raise StageLostError(f"{self._settings.port}: {why}; its position is not known any more")

    def _lose_line(self, error: LineLostError) -> NoReturn:
        self._close_line()
        self._forget_position(str(error))
        raise error

    def _give_up(self, why: str) -> NoReturn:
        self._given_up = why
        self._forget_position(why)
        raise StageError(why)

    def _close_line(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            line.close()

    # -- Coordinates --------------------------------------------------------------------------

    def _machine_mm(self, status: Status) -> float:
        """The machine coordinate of a report, in whole steps where the report is that exact."""
        if status.machine:
            reported = status.machine[self._index]
        else:
            reported = status.work[self._index] + self._work_offset[self._index]
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
