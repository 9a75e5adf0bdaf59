"""The ASCII protocol of Zaber devices: encode commands, parse messages.

A command carries an address, a message number and a checksum. A reply repeats the number, so it is
never assigned to another command. Bytes from a wire may be anything: a line that cannot be parsed,
or whose checksum is wrong, is `Noise`, never an exception.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

NO_FLAG = "--"
STALLED = "FS"
INTERRUPTED = "NI"
MANUAL = "NC"
NOT_HOMED = frozenset({"WR", "WH"})

FLAGS = {
    "FF": "critical error of the device",
    "FN": "the peripheral is not supported",
    "FZ": "the peripheral is not active",
    "FH": "the emergency stop is pressed",
    "FV": "the supply voltage is wrong, and the driver is off",
    "FO": "the driver is switched off",
    "FC": "the inrush current is too high",
    "FM": "the motor is too hot",
    "FD": "the driver is off: too hot, or too much current",
    "FQ": "the encoder fails",
    "FS": "the motor stalled and was stopped: is something in its way?",
    "FE": "a limit sensor could not be reached, or is faulty",
    "WL": "a limit sensor tripped unexpectedly",
    "WV": "the supply voltage is out of range",
    "WT": "the device is hot",
    "WS": "the motor stalled and continued",
    "WM": "it was pushed out of its position",
    "WP": "its calibration is of the wrong type",
    "WR": "it has no reference position: it was switched on and not homed",
    "WH": "it is not homed",
    "NC": "it is being moved by hand (knob or joystick)",
    "NI": "its motion was interrupted by another command",
}
HIDING_FLAGS = frozenset({"WV", "WT", "WP"})
"""These do not concern the position, but hide less serious flags that do."""

REASONS = {
    "AGAIN": "not possible at the moment",
    "BADAXIS": "it has no such axis",
    "BADCOMMAND": "the command or setting is unknown",
    "BADDATA": "a number is out of its range",
    "BUSY": "only possible when idle",
    "DEVICEONLY": "the command is for the device, not for an axis",
    "DRIVERDISABLED": "its driver is switched off",
    "NOACCESS": "its access level is too low",
    "PARKED": "the axis is parked; unpark it",
    "STATUSBUSY": "only possible when idle",
}

_ENVELOPE = re.compile(rb"([@!#])([\x20-\x7e]*?)(?::([0-9A-F]{2}))?")
_REPLY = re.compile(
    r"(\d\d) (\d) (?:(\d\d) )?(OK|RJ) (IDLE|BUSY) ([A-Z][A-Z0-9]|--)(?: (.*))?", re.ASCII
)
_ALERT = re.compile(r"(\d\d) (\d) (IDLE|BUSY) ([A-Z][A-Z0-9]|--)(?: (.*))?", re.ASCII)
_INFO = re.compile(r"(\d\d) (\d) (?:(\d\d) )?(.*)", re.ASCII)
_NUMBER = re.compile(r"[-+]?\d{1,12}(\.\d{1,12})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Reply:
    """`@01 1 00 OK IDLE -- 0`: the answer to a command."""

    device: int
    axis: int
    """0 for the device as a whole."""
    message_id: int | None
    accepted: bool
    busy: bool
    flag: str
    """The most serious active flag."""
    data: str
    """The requested value, or the reason of a refusal."""
    checked: bool
    """Whether it has a checksum."""

    @property
    def refusal(self) -> str:
        reason = self.data.partition(" ")[0]
        return f"{self.data}, {REASONS[reason]}" if reason in REASONS else self.data


@dataclass(frozen=True, slots=True)
class Alert:
    """`!01 1 IDLE --`: sent without a command, for example at the end of a motion."""

    device: int
    axis: int
    busy: bool
    flag: str
    checked: bool


@dataclass(frozen=True, slots=True)
class Info:
    """`#01 1 text`: for a person to read."""

    device: int
    axis: int
    text: str
    checked: bool


@dataclass(frozen=True, slots=True)
class Noise:
    """Anything else: garbage, and a message with a wrong checksum."""

    line: bytes


Message: TypeAlias = Reply | Alert | Info | Noise


def checksum(body: bytes) -> bytes:
    """Two hexadecimal digits that bring the sum of the bytes to 0 modulo 256."""
    return b"%02X" % (-sum(body) & 0xFF)


def encode(device: int, axis: int, message_id: int, text: str) -> bytes:
    """A command as it is sent; axis 0 addresses the device as a whole."""
    body = f"{device} {axis} {message_id:02d} {text}".rstrip().encode("ascii")
    return b"/" + body + b":" + checksum(body) + b"\n"


def parse(line: bytes) -> Message:
    """Parse one line; a line that cannot be parsed is Noise."""
    envelope = _ENVELOPE.fullmatch(line.strip())
    if envelope is None:
        return Noise(line)
    kind, body, received = envelope[1], envelope[2], envelope[3]
    if received is not None and checksum(body) != received:
        return Noise(line)
    text, checked = body.decode("ascii"), received is not None
    if kind == b"@" and (reply := _REPLY.fullmatch(text)):
        return Reply(
            int(reply[1]),
            int(reply[2]),
            None if reply[3] is None else int(reply[3]),
            reply[4] == "OK",
            reply[5] == "BUSY",
            reply[6],
            (reply[7] or "").strip(),
            checked,
        )
    if kind == b"!" and (alert := _ALERT.fullmatch(text)):
        return Alert(int(alert[1]), int(alert[2]), alert[3] == "BUSY", alert[4], checked)
    if kind == b"#" and (info := _INFO.fullmatch(text)):
        return Info(int(info[1]), int(info[2]), info[4], checked)
    return Noise(line)


def is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None


def whole_number(text: str) -> int | None:
    """The whole number in a reply, or None if it is not one."""
    return int(text) if is_number(text) and "." not in text else None


def is_fault(flag: str) -> bool:
    """Whether the device has stopped itself, and does not move until the fault is cleared."""
    return flag.startswith("F")


def voids_position(flag: str) -> bool:
    """Whether the position is void; an unknown warning counts as well."""
    return is_fault(flag) or (flag.startswith("W") and flag not in HIDING_FLAGS)


def explain(flag: str) -> str:
    """A flag and its meaning."""
    return f"{flag}, {FLAGS[flag]}" if flag in FLAGS else f"the device has the flag {flag}"
