"""The GRBL protocol: parse what a board sends, and write what it is sent.

Covers GRBL 1.1 and the dialects of grblHAL and FluidNC. Bytes from a wire may be anything: a line
that cannot be parsed is `Noise`, never an exception, and a number must be finite.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

RESET = b"\x18"
STATUS_QUERY = b"?"
FEED_HOLD = b"!"

REPORT_MM = 2e-3
"""Reports are in micrometres; with a rounded target as well, the two may differ by this much."""

_BANNER = re.compile(rb"(Grbl|GrblHAL|grblHAL|FluidNC) v?(\d+\.\d+\w*)")
_SETTING = re.compile(rb"^\$(\d{1,4})=\s*([-+0-9.eE]{1,24})\s*(?:\(.*)?$")
_ERROR = re.compile(rb"^error:\s*(\d{1,3})$")
# An alarm counts even with noise in front of it; an `ok` does not.
_ALARM = re.compile(rb"ALARM:\s*(\d{1,3})$")
# A number with at most this many digits is finite.
_NUMBER = re.compile(rb"^[-+]?\d{1,12}(\.\d{0,12})?$|^[-+]?\.\d{1,12}$")
_STATE = re.compile(rb"^[A-Z][A-Za-z]{1,9}(?::\d{1,2})?$")

ALARMS = {
    1: ("a limit switch was hit (or noise on its wire)", ""),
    2: ("a command exceeded the soft limits of the board", ""),
    3: ("it was reset in motion", ""),
    6: ("homing was aborted by a reset", ""),
    7: ("homing was aborted by the safety door", ""),
    8: ("homing failed: the limit switch is still closed after the pull-off", "raise $27"),
    9: (
        "homing failed: no limit switch was found",
        "check its wiring and $23, and whether $H homes an axis that has no switch",
    ),
    10: ("the emergency stop is pressed", "release it"),
    14: ("homing failed: a limit switch of another axis is closed", "check that switch"),
}
"""The meaning of an alarm, and what to do about it."""
CRITICAL_ALARMS = frozenset({1, 2, 10})
"""After these a board accepts nothing but a reset."""
HARD_LIMIT = 1

ERRORS = {
    2: "a number is malformed",
    3: "the command is unknown",
    5: "homing is not enabled: set $22=1",
    8: "only possible when idle",
    9: "it is locked: home it",
    15: "the target is beyond its travel",
    20: "the command is not supported",
    22: "no feed rate",
    33: "the target is invalid",
}


@dataclass(frozen=True, slots=True)
class Ok:
    """A line was accepted: a motion is planned, not over."""


@dataclass(frozen=True, slots=True)
class Failure:
    """`error:N`: a line was refused."""

    code: int

    def __str__(self) -> str:
        return f"error:{self.code}" + (f", {ERRORS[self.code]}" if self.code in ERRORS else "")


@dataclass(frozen=True, slots=True)
class Alarm:
    """`ALARM:N`: the board has stopped and locked itself."""

    code: int

    def __str__(self) -> str:
        return f"ALARM:{self.code}" + (f", {ALARMS[self.code][0]}" if self.code in ALARMS else "")

    @property
    def fix(self) -> str:
        return ALARMS[self.code][1] if self.code in ALARMS else ""


@dataclass(frozen=True, slots=True)
class Banner:
    """The board has started: its position may be lost."""

    dialect: str
    version: str


@dataclass(frozen=True, slots=True)
class Status:
    """A report `<State|MPos:…|…>`. Positions are as reported, in $13's unit."""

    state: str
    """For example "Idle", without the number after a colon."""
    substate: int | None
    machine: tuple[float, ...] = ()
    work: tuple[float, ...] = ()
    work_offset: tuple[float, ...] = ()
    pins: str = ""

    @property
    def is_stopped(self) -> bool:
        """Whether nothing moves or will start to move: idle, held, door open, or asleep."""
        still = {"Hold": (0, None), "Door": (0, 1)}
        return self.state in ("Idle", "Sleep") or self.substate in still.get(self.state, ())


@dataclass(frozen=True, slots=True)
class Setting:
    """`$number=value`."""

    number: int
    value: float


@dataclass(frozen=True, slots=True)
class Message:
    """`[kind:text]`, for example `[MSG:Reset to continue]` or `[VER:1.1h.20190830:]`."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Noise:
    """Anything else: boot text, an empty line, garbage."""

    line: bytes


Report: TypeAlias = Ok | Failure | Alarm | Banner | Status | Setting | Message | Noise


def parse(line: bytes) -> Report:
    """Parse one line; a line that cannot be parsed is Noise."""
    text = line.strip()
    if text == b"ok":
        return Ok()
    if text.startswith(b"<") and text.endswith(b">"):
        return _parse_status(text[1:-1]) or Noise(line)
    if error := _ERROR.match(text):
        return Failure(int(error[1]))
    if text.startswith(b"[") and text.endswith(b"]"):
        kind, colon, rest = text[1:-1].partition(b":")
        if colon and kind.isascii() and kind:
            return Message(kind.decode("ascii"), rest.decode("ascii", "replace"))
        return Noise(line)
    if setting := _SETTING.match(text):
        value = _number(setting[2])
        return Noise(line) if value is None else Setting(int(setting[1]), value)
    if alarm := _ALARM.search(text):
        return Alarm(int(alarm[1]))
    if banner := _BANNER.search(text):
        dialect = b"FluidNC" if b"FluidNC" in text else banner[1]
        return Banner(dialect.decode("ascii"), banner[2].decode("ascii", "replace"))
    return Noise(line)


def _parse_status(body: bytes) -> Status | None:
    state, *fields = body.split(b"|")
    if not _STATE.match(state):
        return None
    name, _, number = state.partition(b":")
    positions: dict[bytes, tuple[float, ...]] = {}
    pins = ""
    for entry in fields:
        key, _, value = entry.partition(b":")
        if key in (b"MPos", b"WPos", b"WCO"):
            numbers = [_number(part) for part in value.split(b",")]
            if any(n is None for n in numbers) or key in positions:
                return None
            positions[key] = tuple(n for n in numbers if n is not None)
        elif key == b"Pn":
            pins = value.decode("ascii", "replace")
    return Status(
        name.decode("ascii"),
        int(number) if number else None,
        positions.get(b"MPos", ()),
        positions.get(b"WPos", ()),
        positions.get(b"WCO", ()),
        pins,
    )


def _number(text: bytes) -> float | None:
    return float(text) if _NUMBER.match(text) else None


def move_lines(axis: str, machine_mm: float, speed_mm_per_s: float) -> bytes:
    """A motion that needs no modal state, and the dwell that is answered when it is over."""
    motion = f"G21G90G94G53G1{axis}{machine_mm:.4f}F{speed_mm_per_s * 60:.1f}"
    return f"{motion}\nG4P0\n".encode("ascii")
