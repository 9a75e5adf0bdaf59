"""What a Zaber device reveals during its handshake, for the doctor."""

from __future__ import annotations

import re

from macontrol.config.sections.stage import AXES
from macontrol.hal.diagnostics import Diagnosis
from macontrol.hal.serial.framing import LineBuffer
from macontrol.hal.stages.zaber.protocol import (
    HIDING_FLAGS,
    MANUAL,
    NO_FLAG,
    NOT_HOMED,
    Reply,
    explain,
    parse,
    voids_position,
)
from macontrol.hal.stages.zaber.settings import ZaberSettings

_COMMAND = re.compile(rb"/\d+ \d (\d\d) ?([^:]*):..\n")
_CLEAR_THE_RAIL = "check that the rail is clear, then home it"
_COOL_DOWN = "let it cool down, then lower its acceleration or its load"
_CHECK_SUPPLY = "check its supply: voltage, plug, cable"
_FIXES = {
    "FF": "switch it off and on; if that does not help, ask its maker",
    "FH": "release the emergency stop",
    "FV": _CHECK_SUPPLY,
    "WV": _CHECK_SUPPLY,
    "FO": "switch its driver on",
    "FD": _COOL_DOWN,
    "FM": _COOL_DOWN,
    "WT": _COOL_DOWN,
    "NC": "release its knob",
    "WP": "have it calibrated, or continue without calibration",
}


class ZaberDiagnostics:
    """Implements `StageDiagnostics`."""

    def __init__(self, settings: ZaberSettings) -> None:
        self._address = settings.device_address
        self._axis = AXES.index(settings.axis) + 1
        self._buffer = LineBuffer()
        self._commands: dict[int, str] = {}
        self._values: dict[str, str] = {}
        self._flags: dict[str, None] = {}
        self._was_moving: bool | None = None

    def log(self, direction: str, data: bytes) -> None:
        if direction != "<":
            if command := _COMMAND.fullmatch(data):
                self._commands[int(command[1])] = command[2].decode("ascii", "replace")
            return
        self._buffer.feed(data)
        while (line := self._buffer.take()) is not None:
            message = parse(line)
            if isinstance(message, Reply) and message.device == self._address:
                self._process(message)

    def _process(self, reply: Reply) -> None:
        verb, _, name = self._commands.get(reply.message_id or 0, "").partition(" ")
        if verb == "get" and reply.accepted:
            self._values[name] = reply.data
        if reply.axis != self._axis:
            return
        if self._was_moving is None:
            self._was_moving = reply.busy
        flags = reply.data.split()[1:] if verb == "warnings" and reply.accepted else [reply.flag]
        self._flags |= dict.fromkeys(flag for flag in flags if flag != NO_FLAG)

    @property
    def board(self) -> str:
        if "deviceid" not in self._values:
            return "Zaber device" if self._was_moving is not None else ""
        serial, firmware = self._values.get("system.serial"), self._values.get("version")
        return f"Zaber device {self._values['deviceid']}, serial {serial}, firmware {firmware},"

    @property
    def state(self) -> str:
        return f"flags: {', '.join(self._flags)}" if self._flags else "no flags"

    def problem(self) -> Diagnosis | None:
        for flag in self._flags:
            if voids_position(flag) and flag not in NOT_HOMED:
                return Diagnosis(f"it reports {explain(flag)}", _FIXES.get(flag, _CLEAR_THE_RAIL))
        return None

    def advice(self) -> tuple[Diagnosis, ...]:
        found = [
            Diagnosis(explain(flag), _FIXES[flag])
            for flag in self._flags
            if flag in HIDING_FLAGS or flag == MANUAL
        ]
        if self._was_moving:
            moving = "it was moving when it was connected, and has been stopped"
            found.append(Diagnosis(moving, "find out what else drives it"))
        return tuple(found)
