"""What a Zaber device gives away while it is being connected, kept for a person who asks how it is.

It listens to the traffic and says nothing itself, so it knows the device's settings even where they
are refused, and the flags that were up before anything was done about them.
"""

from __future__ import annotations

import re

from macontrol.config.sections.stage import AXES
from macontrol.hal.diagnostics import Diagnosis
from macontrol.hal.serial.line import LineBuffer
from macontrol.hal.stages.zaber.protocol import (
    HIDING_FLAGS,
    NO_FLAG,
    NOT_HOMED,
    Reply,
    explain,
    parse,
    voids_position,
)
from macontrol.hal.stages.zaber.settings import ZaberSettings

_COMMAND = re.compile(rb"/\d+ \d (\d\d) ?([^:]*):..\n")
_CLEAR_THE_RAIL = "see that the rail is clear, then home it"
_COOL_DOWN = "let it cool, then lower its acceleration or its load"
_CURES = {
    "FF": "switch it off and on; if that does not help, ask its maker",
    "FH": "release the emergency stop",
    "FV": "check its supply: voltage, plug, cable",
    "WV": "check its supply: voltage, plug, cable",
    "FO": "switch its driver on",
    "FD": _COOL_DOWN,
    "FM": _COOL_DOWN,
    "WT": _COOL_DOWN,
    "NC": "let go of its knob",
    "WP": "have it calibrated, or go on without",
}


class ZaberCheckup:
    """Hand its `log` to the stage as the log of its traffic."""

    def __init__(self, settings: ZaberSettings) -> None:
        self._address = settings.device_address
        self._axis = AXES.index(settings.axis) + 1
        self._buffer = LineBuffer()
        self._asked: dict[int, str] = {}
        self._told: dict[str, str] = {}
        self._flags: dict[str, None] = {}
        self._was_moving: bool | None = None

    def log(self, direction: str, data: bytes) -> None:
        """Take in what went over the wire."""
        if direction != "<":
            if command := _COMMAND.fullmatch(data):
                self._asked[int(command[1])] = command[2].decode("ascii", "replace")
            return
        self._buffer.feed(data)
        while (line := self._buffer.take()) is not None:
            message = parse(line)
            if isinstance(message, Reply) and message.device == self._address:
                self._take(message)

    def _take(self, reply: Reply) -> None:
        verb, _, name = self._asked.get(reply.message_id or 0, "").partition(" ")
        if verb == "get" and reply.accepted:
            self._told[name] = reply.data
        if reply.axis != self._axis:
            return
        if self._was_moving is None:
            self._was_moving = reply.busy
        flags = reply.data.split()[1:] if verb == "warnings" and reply.accepted else [reply.flag]
        self._flags |= dict.fromkeys(flag for flag in flags if flag != NO_FLAG)

    @property
    def board(self) -> str:
        """Get which device it is; empty if it did not say."""
        if "deviceid" not in self._told:
            return "Zaber device" if self._was_moving is not None else ""
        serial, firmware = self._told.get("system.serial"), self._told.get("version")
        return f"Zaber device {self._told['deviceid']}, serial {serial}, firmware {firmware},"

    @property
    def state(self) -> str:
        """Get what it said of itself in flags."""
        return f"flags: {', '.join(self._flags)}" if self._flags else "no flags"

    def trouble(self, settings: ZaberSettings) -> Diagnosis | None:
        """What is wrong with the state it was found in, and what to do; None if nothing."""
        for flag in self._flags:
            if voids_position(flag) and flag not in NOT_HOMED:
                return Diagnosis(f"it shows {explain(flag)}", _CURES.get(flag, _CLEAR_THE_RAIL))
        return None

    def advice(self, settings: ZaberSettings) -> tuple[Diagnosis, ...]:
        """What would be better otherwise, though it can be run."""
        found = [
            Diagnosis(explain(flag), _CURES[flag])
            for flag in self._flags
            if flag in HIDING_FLAGS or flag == "NC"
        ]
        if self._was_moving:
            found.append(
                Diagnosis(
                    "it was moving when it was connected, and has been stopped",
                    "see who else drives it",
                )
            )
        return tuple(found)
