"""What a GRBL board gives away while it is being connected, kept for a person who asks how it is.

It listens to the traffic and says nothing itself, so it knows the board's settings even where they
are refused, and an alarm even where a reset has cleared it.
"""

from __future__ import annotations

from macontrol.hal.diagnostics import Diagnosis
from macontrol.hal.serial.line import LineBuffer
from macontrol.hal.stages.grbl.board import BoardIdentity, advice
from macontrol.hal.stages.grbl.protocol import (
    RESET,
    STATUS_QUERY,
    Alarm,
    Banner,
    Message,
    Setting,
    Status,
    parse,
)
from macontrol.hal.stages.grbl.settings import GrblSettings


class GrblCheckup:
    """Hand its `log` to the stage as the log of its traffic."""

    def __init__(self, settings: GrblSettings | None = None) -> None:
        self._buffer = LineBuffer()
        self._banner = self._version = self._options = ""
        self._settings: dict[int, float] = {}
        self._alarm: Alarm | None = None
        self._status: Status | None = None
        self._is_asked = self._was_deaf = False

    def log(self, direction: str, data: bytes) -> None:
        """Take in what went over the wire."""
        if direction != "<":
            self._was_deaf |= data == RESET and self._is_asked
            self._is_asked = data == STATUS_QUERY
            return
        self._buffer.feed(data)
        while (line := self._buffer.take()) is not None:
            match parse(line):
                case Banner(dialect, version):
                    self._banner, self._version = dialect, self._version or version
                case Message("VER", text):
                    self._version = text.partition(":")[0]
                case Message("OPT", text):
                    self._options = text.partition(",")[0]
                case Setting(number, value):
                    self._settings[number] = value
                case Alarm() as alarm:
                    self._alarm = alarm
                case Status() as status:
                    self._status, self._is_asked = status, False

    @property
    def board(self) -> str:
        """Get the firmware and its version; empty if nothing was heard of either."""
        return f"{self._banner or 'Grbl'} {self._version}" if self._version else self._banner

    @property
    def state(self) -> str:
        """Get what the board said last of what it does."""
        if self._status is None:
            return "unknown"
        is_locked = self._status.state == "Alarm"
        return "locked until it is homed" if is_locked else self._status.state.lower()

    def trouble(self, settings: GrblSettings) -> Diagnosis | None:
        """What is wrong with the state the board was found in, and what to do; None if nothing."""
        if self._status is not None and settings.axis in self._status.pins:
            return Diagnosis(
                f"the {settings.axis} limit switch is closed",
                "move the carriage off the switch by hand; else check the wiring, and invert it "
                "with $5 if it opens when pressed",
            )
        if self._alarm is not None:
            return Diagnosis(
                f"it was found in {self._alarm}", "see that the rail is clear, then home it"
            )
        if self._was_deaf:
            return Diagnosis(
                "it answered only after a reset: it was locked by an alarm, or had hung",
                "see that the rail is clear and the switches are sound; it has now been reset",
            )
        return None

    def advice(self, settings: GrblSettings) -> tuple[Diagnosis, ...]:
        """What of the board's settings would be better otherwise."""
        if not self._settings:
            return ()
        identity = BoardIdentity(self._banner, self._version, self._options, self._settings)
        return advice(identity, settings)
