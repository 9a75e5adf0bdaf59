"""Moves of a Zaber stage.

A device replies immediately and moves meanwhile; it is asked for its position until it is idle. A
device that was switched off and on shows that only by a flag, so its flags are read before every
move.
"""

from __future__ import annotations

from math import inf

from macontrol.config.model.errors import StageBusyError, StageError, StageLostError
from macontrol.hal.serial.position import SILENCE_S
from macontrol.hal.stage import Arrival
from macontrol.hal.stages.zaber.handshake import STOP_S, ZaberHandshake
from macontrol.hal.stages.zaber.protocol import INTERRUPTED, MANUAL, explain
from macontrol.hal.stages.zaber.session import (
    LONGEST_POLL_S,
    SHORTEST_POLL_S,
    AxisStatus,
    ZaberSession,
)

# A caller waits for this, so a lost stage gets fewer attempts.
_STOPS_WHEN_LOST = 2


class ZaberMotion:
    """Moves, reports and stops, in the coordinates of the last homing."""

    def __init__(self, session: ZaberSession, handshake: ZaberHandshake) -> None:
        self._session, self._handshake = session, handshake
        self._clock, self._position = session.parts.clock, session.parts.position

    def move_to(self, position_mm: float, deadline_s: float) -> Arrival:
        position, axis = self._position, self._handshake.axis
        before = self._require_status(deadline_s)
        if before.busy:
            if MANUAL in before.flags:
                raise StageError(f"the stage is paused: {explain(MANUAL)}")
            raise StageBusyError("the stage is still busy with an earlier move")
        previous = position.reported_mm
        position.reported_mm = position.coordinates.to_rail(before.position)
        position.require_unmoved(previous)
        target = round(position.coordinates.to_board(position_mm))
        speed = "" if axis.move_speed is None else f" {axis.move_speed}"
        position.still_at_s = inf
        sent = self._clock.now()
        reply = self._session.ask_soon(f"move abs {target}{speed}", deadline_s)
        if reply is not None and not reply.accepted:
            position.still_at_s = -inf
            raise StageError(f"the device refuses to move to {position_mm:.4f} mm: {reply.refusal}")
        distance = abs(target - before.position) * axis.step_mm
        expected_s = sent + position.description.motion.time_s(distance)
        return self._await_arrival(target, expected_s, deadline_s)

    def _await_arrival(self, target: int, expected_s: float, deadline_s: float) -> Arrival:
        """Ask until the motion is over: rarely at first, often when its end is near."""
        position, session = self._position, self._session
        answered = self._clock.now()
        while True:
            pause = min(max(expected_s - self._clock.now(), SHORTEST_POLL_S), LONGEST_POLL_S)
            session.listen(min(deadline_s, self._clock.now() + pause))
            if self._clock.now() >= deadline_s:
                return Arrival(position.reported_mm, False, self._clock.now())
            status = session.ask_status(session.soon(deadline_s))
            if status is not None:
                answered = self._clock.now()
                position.reported_mm = position.coordinates.to_rail(status.position)
                if not status.busy:
                    break
            elif self._clock.now() - answered >= SILENCE_S:
                position.note_silence(answered)
        position.begin_settling()
        self._require_at(position.coordinates.to_rail(target), status)
        return position.await_settled(deadline_s)

    def _require_at(self, target_mm: float, status: AxisStatus) -> None:
        reported_mm = self._position.reported_mm
        if not self._position.description.is_near(reported_mm, target_mm):
            reason = explain(INTERRUPTED) if INTERRUPTED in status.flags else "it did not arrive"
            raise StageError(
                f"the stage was sent to {target_mm:.4f} mm and is at {reported_mm:.4f} mm: {reason}"
            )

    def where(self, deadline_s: float) -> Arrival:
        position = self._position
        status = self._require_status(deadline_s)
        position.require_homed()
        position.reported_mm = position.coordinates.to_rail(status.position)
        now = self._clock.now()
        if status.busy:
            position.still_at_s = inf
        elif position.still_at_s == inf:
            position.begin_settling()
        return Arrival(position.reported_mm, now >= position.still_at_s, now)

    def is_ready(self, deadline_s: float) -> bool:
        return self._session.ask_status(deadline_s) is not None

    def _require_status(self, deadline_s: float) -> AxisStatus:
        asked = self._clock.now()
        while (status := self._session.ask_status(self._session.soon(deadline_s))) is None:
            now = self._clock.now()
            if now >= deadline_s or now - asked >= SILENCE_S:
                self._position.note_silence(asked)
        self._position.note_answer()
        return status

    def stop(self) -> None:
        position = self._position
        if position.is_lost:
            self._stop_lost()
            return
        try:
            status = self._session.stop(self._clock.now() + STOP_S)
        except StageLostError:
            raise
        except StageError:
            position.lose("the device could not be stopped")
        if position.is_homed:
            position.reported_mm = position.coordinates.to_rail(status.position)
        if position.still_at_s == inf:
            position.begin_settling()

    def _stop_lost(self) -> None:
        """Stop a stage whose position is unknown: its flags do not matter."""
        with self._position.expecting_loss():
            for _ in range(_STOPS_WHEN_LOST):
                if self._session.ask_soon("stop", inf) is not None:
                    return
