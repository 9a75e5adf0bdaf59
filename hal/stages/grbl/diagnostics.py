"""What a GRBL board reveals during its handshake, for the doctor."""

from __future__ import annotations

from macontrol.hal.diagnostics import Diagnosis
from macontrol.hal.serial.framing import LineBuffer
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


class GrblDiagnostics:
    """Implements `StageDiagnostics`."""

    def __init__(self, settings: GrblSettings) -> None:
        self._settings = settings
        self._buffer = LineBuffer()
        self._banner = self._version = self._options = ""
        self._values: dict[int, float] = {}
        self._alarm: Alarm | None = None
        self._status: Status | None = None
        self._has_open_query = self._was_unresponsive = False

    def log(self, direction: str, data: bytes) -> None:
        if direction != "<":
            self._was_unresponsive |= data == RESET and self._has_open_query
            self._has_open_query = data == STATUS_QUERY
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
                    self._values[number] = value
                case Alarm() as alarm:
                    self._alarm = alarm
                case Status() as status:
                    self._status, self._has_open_query = status, False

    @property
    def board(self) -> str:
        return f"{self._banner or 'Grbl'} {self._version}" if self._version else self._banner

    @property
    def state(self) -> str:
        if self._status is None:
            return "unknown"
        is_locked = self._status.state == "Alarm"
        return "locked until it is homed" if is_locked else self._status.state.lower()

    def problem(self) -> Diagnosis | None:
        axis = self._settings.axis
        if self._status is not None and axis in self._status.pins:
            return Diagnosis(
                f"the {axis} limit switch is closed",
                "move the carriage off the switch by hand; otherwise check the wiring, and invert "
                "the switch with $5 if it opens when pressed",
            )
        if self._alarm is not None:
            return Diagnosis(
                f"it was found in {self._alarm}",
                self._alarm.fix or "check that the rail is clear, then home it",
            )
        if self._was_unresponsive:
            return Diagnosis(
                "it answered only after a reset: it was locked by an alarm, or it hung",
                "check that the rail is clear and the switches work; it has been reset",
            )
        return None

    def advice(self) -> tuple[Diagnosis, ...]:
        if not self._values:
            return ()
        identity = BoardIdentity(self._banner, self._version, self._options, self._values)
        return advice(identity, self._settings)
