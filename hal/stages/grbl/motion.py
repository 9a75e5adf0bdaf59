"""Moves of a GRBL stage.

A move is two lines, the motion and `G4 P0`: the board answers the first when the motion is planned
and the second when it is over. One motion is active at a time. No answer contains a position, so a
report is requested before every move and after it.
"""

from __future__ import annotations

from math import inf, nan

from macontrol.config.model.errors import StageBusyError, StageError
from macontrol.hal.serial.rail import Coordinates
from macontrol.hal.stage import Arrival
from macontrol.hal.stages.grbl.handshake import GrblHandshake
from macontrol.hal.stages.grbl.protocol import (
    FEED_HOLD,
    REPORT_MM,
    RESET,
    Failure,
    Status,
    move_lines,
)
from macontrol.hal.stages.grbl.session import ANSWER_S, BANNER_WAIT_S, STOP_S, GrblSession

# A report that is not older than this is not requested again.
_FRESH_S = 0.01
# How long after a report of Idle an owed `ok` may still arrive: at the target, and elsewhere, where
# the motion may not have started.
_LATE_ANSWER_S = 0.1
_NOT_STARTED_S = 1.0


class GrblMotion:
    """Moves, reports and stops, in the coordinates of the last homing."""

    def __init__(self, session: GrblSession, handshake: GrblHandshake) -> None:
        self._session, self._handshake = session, handshake
        self._clock, self._position = session.parts.clock, session.parts.position
        self._axis_name = session.parts.settings.axis
        self._target_mm = nan
        self._range_mm = (nan, nan)
        """Where it must be, by what was sent since it was last seen at rest."""
        self._idle_since_s: float | None = None
        self._rest_seen_at_s = -inf
        """When it was last seen at rest at its target."""

    def begin_at(self, coordinates: Coordinates, machine_mm: float) -> None:
        """Start at rest after a homing."""
        self._position.begin_at(coordinates, machine_mm)
        self._rest_at(self._position.reported_mm)

    # -- Moving -------------------------------------------------------------------------------

    def move_to(self, position_mm: float, deadline_s: float) -> Arrival:
        session, position, stage = self._session, self._position, self._position.description
        session.drain()
        if session.owed:
            raise StageBusyError("the stage is still busy with an earlier move")
        self._require_rest(deadline_s)
        target = min(max(position_mm, 0.0), stage.travel_mm)
        start = position.reported_mm
        self._range_mm = (min(start, target), max(start, target))
        self._target_mm, self._idle_since_s, self._rest_seen_at_s = target, None, -inf
        position.still_at_s = inf
        machine_mm = position.coordinates.to_board(target)
        lines = move_lines(self._axis_name, machine_mm, stage.speed_mm_per_s)
        session.send(lines, deadline_s, answers=2)
        refusal: Failure | None = None
        while session.owed:
            report = session.next_report(deadline_s)
            if report is None:
                return self._not_arrived()
            if isinstance(report, Failure):
                if session.owed:  # the motion itself is refused, so it does not take place
                    self._target_mm = position.reported_mm
                refusal = refusal or report
        position.begin_settling()
        if refusal is not None:
            # grblHAL refuses every line until it has received an empty one.
            session.send(b"\n", deadline_s, answers=1)
            session.await_answers(deadline_s)
            raise StageError(f"the board refuses to move to {target:.4f} mm: {refusal}")
        return self._await_arrival(deadline_s)

    def _require_rest(self, deadline_s: float) -> None:
        """Before a move, require a report that the stage rests where the previous report was.

        A pendant or a web page may have moved it; nothing else would show that.
        """
        asked = self._clock.now()
        if asked - self._rest_seen_at_s <= _FRESH_S:
            return
        status = self._session.ask_status(deadline_s)
        if status is None:
            self._position.note_silence(asked)
        previous = self._position.reported_mm
        self._accept(status)
        if not self._is_at_target(status):
            raise StageError(
                f"the board reports {status.state} at {self._position.reported_mm:.4f} mm, and its "
                f"last move ends at {self._target_mm:.4f} mm: it moves, or may start to move"
            )
        self._position.require_unmoved(previous)

    def _await_arrival(self, deadline_s: float) -> Arrival:
        """Request the position while the antenna settles: an `ok` alone is no arrival."""
        position = self._position
        while self._clock.now() < deadline_s:
            status = self._session.ask_status(deadline_s)
            if status is None:
                break
            self._accept(status)
            if self._is_at_target(status):
                self._note_rest()
                return position.await_settled(deadline_s)
            # One of the two `ok` belonged to something else: the last one is still owed.
            self._session.owed, position.still_at_s = 1, inf
            if not self._session.await_answers(deadline_s):
                break
            position.begin_settling()
        return self._not_arrived()

    def _not_arrived(self) -> Arrival:
        return Arrival(self._position.reported_mm, False, self._clock.now())

    # -- Reports ------------------------------------------------------------------------------

    def where(self, deadline_s: float) -> Arrival:
        position = self._position
        asked = self._clock.now()
        status = self._session.ask_status(deadline_s)
        if status is None:
            position.note_silence(asked)
        position.note_answer()
        position.require_homed()
        self._accept(status)
        is_at_target = self._is_at_target(status)
        if status.state == "Idle" and (self._session.owed or not is_at_target):
            self._await_late_answers(deadline_s)
        else:
            self._idle_since_s = None
        now = self._clock.now()
        is_at_rest = is_at_target and not self._session.owed
        if is_at_rest:
            self._note_rest()
        if is_at_rest and position.still_at_s == inf:
            position.begin_settling()
        return Arrival(position.reported_mm, is_at_rest and now >= position.still_at_s, now)

    def is_ready(self, deadline_s: float) -> bool:
        status = self._session.ask_status(deadline_s)
        return status is not None and status.state in ("Idle", "Run")

    def _accept(self, status: Status) -> None:
        """Accept a reported position, unless the state of the board makes it void."""
        if status.state == "Alarm":
            self._position.lose("the board is locked by an alarm")
        position_mm = self._to_rail(status)
        low_mm, high_mm = self._range_mm
        slack_mm = self._handshake.axis.step_mm + REPORT_MM
        if not low_mm - slack_mm <= position_mm <= high_mm + slack_mm:
            self._position.lose(
                f"the board reports {position_mm:.3f} mm, where it was never sent: it was reset, "
                "or moved by a pendant or another program"
            )
        self._position.reported_mm = position_mm
        if status.state not in ("Idle", "Run"):
            raise StageError(f"the stage is paused: the board reports {status.state}")

    def _to_rail(self, status: Status) -> float:
        return self._position.coordinates.to_rail(self._handshake.machine_mm(status))

    def _is_near_target(self, position_mm: float) -> bool:
        return self._position.description.is_near(position_mm, self._target_mm)

    def _is_at_target(self, status: Status) -> bool:
        """Whether a report that was just accepted shows rest at the target of the last move."""
        return status.state == "Idle" and self._is_near_target(self._position.reported_mm)

    def _rest_at(self, position_mm: float) -> None:
        self._position.reported_mm = self._target_mm = position_mm
        self._note_rest()

    def _note_rest(self) -> None:
        """From now on it must be at the position of the last report."""
        self._range_mm = (self._position.reported_mm, self._position.reported_mm)
        self._rest_seen_at_s = self._clock.now()

    def _await_late_answers(self, deadline_s: float) -> None:
        """Decide whether an idle board that owes answers has not started, or they were garbled.

        At the target the motion is over. Elsewhere the motion would have started within the time
        that a board may be silent; but the board may still have it, and start it with the next
        one. So it may even if nothing is owed: the answers may have belonged to something else.
        """
        now = self._clock.now()
        if self._idle_since_s is None:
            self._idle_since_s = now
        self._session.await_answers(min(deadline_s, now + _LATE_ANSWER_S))
        waited = self._clock.now() - self._idle_since_s
        if self._is_near_target(self._position.reported_mm):
            if waited >= _LATE_ANSWER_S - 1e-6:
                self._session.owed = 0
        elif waited >= _NOT_STARTED_S - 1e-6:
            self._position.lose("the board has neither started nor refused a move")

    # -- Stopping -----------------------------------------------------------------------------

    def stop(self) -> None:
        session, position = self._session, self._position
        if position.is_lost:
            session.send(FEED_HOLD + RESET)
            return
        session.drain()
        if not session.owed:
            status = session.ask_status(self._clock.now() + ANSWER_S)
            if status is not None and self._has_nothing_to_stop(status):
                return
        held = session.hold(self._clock.now() + STOP_S)
        if held is None:
            session.send(RESET)
            position.lose("it could not be stopped without a reset in motion")
        homed_at_s = position.homed_at_s
        with position.handshake("it is being stopped"):
            session.begin_handshake()
            has_restarted = session.reset(self._clock.now() + BANNER_WAIT_S)
            after = session.ask_status(self._clock.now() + ANSWER_S) if has_restarted else None
        if session.alarm is not None:
            position.lose(str(session.alarm), session.alarm.fix)
        if after is None or after.state != "Idle":
            position.lose("the board is not idle after a stop")
        machine_mm = self._handshake.machine_mm
        if not position.description.is_near(machine_mm(after), machine_mm(held)):
            position.lose("its position changed while it was stopped")
        position.restore(homed_at_s)
        if position.is_homed:
            self._rest_at(self._to_rail(after))

    def _has_nothing_to_stop(self, status: Status) -> bool:
        """Whether nothing moves, and no move is waiting to start."""
        if not self._position.is_homed:
            return status.state in ("Idle", "Alarm")
        is_near = self._is_near_target(self._to_rail(status))
        return status.state == "Alarm" or (status.state == "Idle" and is_near)
