"""A stage with the sketch `stepper`, composed of the parts in `macontrol.hal.serial`."""

from __future__ import annotations

from math import inf
from typing import Unpack

from macontrol.config.model.errors import ConfigError, StageBusyError, StageError, StageLostError
from macontrol.hal import Arrival, Clock, StageDescription
from macontrol.hal.serial.latency import AnswerTimes, Parts, measure_until_stable
from macontrol.hal.serial.position import SILENCE_S
from macontrol.hal.serial.rail import Axis, Coordinates, describe, homing_time_s, require_fit
from macontrol.hal.serial.stage import SerialParts, SerialStage, StageOptions
from stepper_stage.protocol import Reply
from stepper_stage.session import POLL_S, StepperSession
from stepper_stage.settings import StepperSettings

_FIRMWARE = "stepper-1"
# An Arduino restarts when its port is opened, and its boot loader waits.
_START_S = 2.5
_LONGEST_POLL_S = 0.05


class StepperStage(SerialStage):
    """A stepper board and its rail."""

    def __init__(
        self, settings: StepperSettings, clock: Clock, **options: Unpack[StageOptions]
    ) -> None:
        parts = SerialParts(settings, clock, board="board", **options)
        session = StepperSession(parts)
        handshake = StepperHandshake(session)
        motion = StepperMotion(session, handshake)
        super().__init__(parts, handshake, StepperHoming(session, handshake), motion)


class StepperHandshake:
    """Brings the board to rest and reads what it is."""

    def __init__(self, session: StepperSession) -> None:
        parts, self._session = session.parts, session
        self._settings, self._clock, self._position = parts.settings, parts.clock, parts.position
        self._facts: tuple[str, ...] | None = None
        self._axis: Axis | None = None
        self.top_speed = 0
        """The speed of moves, in steps/s."""

    @property
    def axis(self) -> Axis:
        return self._position.known(self._axis)

    @property
    def identity_parts(self) -> dict[str, str]:
        firmware, name, *settings = self._position.known(self._facts)
        return {"firmware": firmware, "board": name, "settings": " ".join(settings)}

    def check_settings(self) -> None:
        if self._settings.homing_direction == "positive":
            raise ConfigError(
                'stage.homing_direction = "positive": position 0 of this board is at its switch',
                "remove it, and swap the coils of the motor or set stage.inverted = true",
            )

    def begin(self) -> None:
        """Every answer has its number, so there is nothing to forget."""

    def await_start(self, deadline_s: float) -> None:
        self._session.await_start(min(deadline_s, self._clock.now() + _START_S))

    def unlock(self, deadline_s: float) -> None:
        """Nothing locks the board: the next homing clears a fault."""

    def bring_to_idle(self, deadline_s: float) -> None:
        self._session.stop(deadline_s)

    def identify(self, deadline_s: float) -> None:
        facts = self._session.require("info", deadline_s).facts
        if len(facts) != 7 or facts[0] != _FIRMWARE or not all(map(str.isdecimal, facts[2:])):
            raise StageError(
                f"{self._settings.port}: the sketch on the board is {' '.join(facts)}",
                f"load the sketch {_FIRMWARE}",
            )
        if self._settings.board not in ("any", facts[1]):
            raise ConfigError(
                f"stage.stepper.board is {self._settings.board}, and {self._settings.port} is "
                f"the board {facts[1]}",
                "give --port of the right board, or correct the setting",
            )
        if self._facts not in (None, facts):
            self._position.give_up(
                "another board, or one with other settings, came back", "start again"
            )
        self._axis = self._read_axis(*map(int, facts[2:]))
        self._facts = facts

    def _read_axis(
        self, step_nm: int, travel: int, speed: int, acceleration: int, homing_speed: int
    ) -> Axis:
        """The rail of the board, or ConfigError if the config does not fit it."""
        step_mm, settings = step_nm * 1e-6, self._settings
        reason = f"the board searches its switch at {homing_speed} steps/s"
        axis = Axis(
            step_mm=step_mm,
            usable_mm=travel * step_mm,
            speed_mm_per_s=speed * step_mm,
            acceleration_mm_per_s2=acceleration * step_mm,
            homes_positive=False,
            homing_time_s=homing_time_s(settings, 2 * travel / homing_speed + 10.0, reason),
        )
        require_fit(
            settings,
            axis,
            board="board",
            travel_source=f"TRAVEL = {travel} in its sketch",
            speed_source=f"MAX_SPEED = {speed} in its sketch",
        )
        mm_per_s = settings.speed_mm_per_s
        self.top_speed = speed if mm_per_s == "auto" else max(int(mm_per_s / step_mm + 1e-6), 1)
        return axis

    def time_answers(self, deadline_s: float) -> AnswerTimes:
        def measure() -> Parts:
            asked_s = self._clock.now()
            self._session.require("status", deadline_s)
            return (self._clock.now() - asked_s,)

        return measure_until_stable(measure, 4)

    def describe(self, answers_s: Parts) -> StageDescription:
        # The question before a move, the move, and a last question that was just too early.
        latency_s = 3 * answers_s[0] + POLL_S
        return describe(self._settings, self.axis, latency_s=latency_s, tolerance_mm=1e-3)


class StepperMotion:
    """Moves, reports and stops. The board answers at once, and is asked until it is idle."""

    def __init__(self, session: StepperSession, handshake: StepperHandshake) -> None:
        self._session, self._handshake = session, handshake
        self._clock, self._position = session.parts.clock, session.parts.position

    def _note(self, reply: Reply) -> None:
        self._position.reported_mm = self._position.coordinates.to_rail(reply.position)

    def move_to(self, position_mm: float, deadline_s: float) -> Arrival:
        position, before = self._position, self._require_status(deadline_s)
        if before.is_busy:
            raise StageBusyError("the stage is still busy with an earlier move")
        previous_mm = position.reported_mm
        self._note(before)
        position.require_unmoved(previous_mm)
        target = round(position.coordinates.to_board(position_mm))
        position.still_at_s = inf
        sent_s = self._clock.now()
        reply = self._session.ask(f"move {target} {self._handshake.top_speed}", deadline_s)
        if reply is not None and reply.result != "ok":
            position.still_at_s = -inf
            raise StageError(f"the board refuses to move to step {target}: {reply.result}")
        distance_mm = abs(target - before.position) * self._handshake.axis.step_mm
        expected_s = sent_s + position.description.motion.time_s(distance_mm)
        return self._await_arrival(target, expected_s, deadline_s)

    def _await_arrival(self, target: int, expected_s: float, deadline_s: float) -> Arrival:
        """Ask until the motion is over: rarely at first, often when its end is near."""
        position, answered_s = self._position, self._clock.now()
        while (now := self._clock.now()) < deadline_s:
            pause_s = min(max(expected_s - now, POLL_S), _LONGEST_POLL_S)
            self._clock.sleep_until(min(deadline_s, now + pause_s))
            status = self._session.status(deadline_s)
            if status is None:
                if self._clock.now() - answered_s >= SILENCE_S:
                    position.note_silence(answered_s)
                continue
            answered_s = self._clock.now()
            self._note(status)
            if not status.is_busy:
                position.begin_settling()
                if status.position != target:
                    reached = f"is at {status.position}"
                    raise StageError(f"the board was sent to step {target} and {reached}")
                return position.await_settled(deadline_s)
        return Arrival(position.reported_mm, False, now)

    def where(self, deadline_s: float) -> Arrival:
        status, position = self._require_status(deadline_s), self._position
        position.require_homed()
        self._note(status)
        if status.is_busy:
            position.still_at_s = inf
        elif position.still_at_s == inf:
            position.begin_settling()
        now = self._clock.now()
        return Arrival(position.reported_mm, now >= position.still_at_s, now)

    def _require_status(self, deadline_s: float) -> Reply:
        asked_s = self._clock.now()
        while (status := self._session.status(deadline_s)) is None:
            if self._clock.now() >= min(deadline_s, asked_s + SILENCE_S):
                self._position.note_silence(asked_s)
        return status

    def is_ready(self, deadline_s: float) -> bool:
        return self._session.status(deadline_s) is not None

    def stop(self) -> None:
        position = self._position
        try:
            reply = self._session.stop(inf)
        except StageLostError:
            raise
        except StageError:
            if position.is_homed:
                position.lose("the board could not be stopped")
            raise
        if position.is_homed:
            self._note(reply)
            if position.still_at_s == inf:
                position.begin_settling()


class StepperHoming:
    """Finds the switch; the board sets its position 0 there."""

    def __init__(self, session: StepperSession, handshake: StepperHandshake) -> None:
        self._session, self._handshake = session, handshake

    @property
    def duration_s(self) -> float:
        return self._handshake.axis.homing_time_s

    def run(self, deadline_s: float) -> None:
        session, clock = self._session, self._session.parts.clock
        reply = session.require("home", deadline_s)  # "busy" if its first answer was corrupted
        while reply.is_busy:
            if clock.now() >= deadline_s:
                raise StageError("homing did not end in time")
            session.parts.connection.wait_until(clock.now() + _LONGEST_POLL_S)
            reply = session.require("status", deadline_s)
        if (reply.state, reply.position) != ("idle", 0):
            raise StageError(
                f"homing failed: the board is {reply.state} at step {reply.position}",
                "check the switch and its wires, and the direction of the motor",
            )
        parts, axis = session.parts, self._handshake.axis
        parts.position.begin_at(Coordinates(parts.settings, axis, 0.0, in_steps=True), 0.0)

    def abort(self) -> None:
        self._session.ask("stop", self._session.parts.clock.now())
