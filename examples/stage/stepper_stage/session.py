"""The dialogue with a board: one command at a time, each answer matched by its number.

Every answer has the state of the board. A board that is no longer homed was restarted, or its
switch was pressed: then the stage is lost.
"""

from __future__ import annotations

from macontrol.config.model.errors import NoAnswerError, StageError
from macontrol.hal.serial.stage import SerialParts
from stepper_stage.protocol import Reply, parse, signed
from stepper_stage.settings import StepperSettings

ATTEMPTS = 4
POLL_S = 0.002
_ANSWER_S = 0.25
_STOP_S = 3.0
_WHY_LOST = {
    "unhomed": "the board was restarted",
    "homing": "the board is being homed by another program",
    "fault": "the home switch was pressed during a move: was something in the way?",
}


class StepperSession:
    """One board behind one connection."""

    def __init__(self, parts: SerialParts[StepperSettings]) -> None:
        self.parts = parts
        self._port, self._clock = parts.settings.port, parts.clock
        self._connection, self._position = parts.connection, parts.position
        self._number = 0

    def ask(self, command: str, deadline_s: float) -> Reply | None:
        """Send a command and return its answer; None if none arrives in time."""
        self._number = self._number % 99 + 1
        self._connection.write(signed(f"{self._number} {command}"), deadline_s)
        until_s = min(deadline_s, self._clock.now() + _ANSWER_S)
        while (line := self._connection.read_message(until_s)) is not None:
            reply = self._judged(line)
            if reply is not None and reply.number == self._number:
                return reply
            if self._clock.now() >= until_s:
                break
        return None

    def status(self, deadline_s: float) -> Reply | None:
        return self.ask("status", deadline_s)

    def require(self, command: str, deadline_s: float) -> Reply:
        """The answer to a command that can be repeated; NoAnswerError if there is none."""
        for _ in range(ATTEMPTS):
            if (reply := self.ask(command, deadline_s)) is not None:
                return reply
            if self._clock.now() >= deadline_s:
                break
        raise NoAnswerError(
            f"{self._port}: no stepper board answers at {self.parts.settings.baud_rate} baud",
            "check the port, its power, and that the sketch is on the board",
        )

    def stop(self, deadline_s: float) -> Reply:
        """Stop, and wait until the motor is at rest."""
        deadline_s = min(deadline_s, self._clock.now() + _STOP_S)
        reply = self.require("stop", deadline_s)
        while reply.is_busy:
            if self._clock.now() >= deadline_s:
                raise StageError(f"{self._port}: the motor does not stop")
            self._connection.wait_until(self._clock.now() + POLL_S)
            reply = self.require("status", deadline_s)
        return reply

    def await_start(self, deadline_s: float) -> None:
        """Wait for what a board sends when it starts."""
        while (line := self._connection.read_message(deadline_s)) is not None:
            if self._judged(line) is not None or self._clock.now() >= deadline_s:
                return

    def _judged(self, line: bytes) -> Reply | None:
        """Parse a line; a state without a known position loses a stage that was homed."""
        reply = parse(line)
        if reply is not None:
            self._position.note_answer()
            if self._position.is_homed and reply.state in _WHY_LOST:
                self._position.lose(_WHY_LOST[reply.state])
        return reply
