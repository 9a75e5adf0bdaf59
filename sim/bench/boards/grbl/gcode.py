"""The G-code that the emulated GRBL board understands: the part that one axis needs."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

_WORD = re.compile(r"([A-Z])([-+]?\d*\.?\d*)")
_MM_PER_INCH = 25.4
_LONGEST_LINE = 79

# G codes times ten.
_MOTIONS = {0: 0, 10: 1}
_DWELL = 40
_IN_INCHES = {200: True, 210: False}
_MACHINE_COORDINATES = 530
_IS_ABSOLUTE = {900: True, 910: False}
# Without an effect on the modes.
_OTHERS = frozenset({_DWELL, _MACHINE_COORDINATES, 170, 400, 490, 540, 610, 800, 940})
_NOT_IN_A_JOG = frozenset({0, 10, 170, 540, 940})


class Refused(Exception):  # noqa: N818 - it is an answer of the board, not an error of ours
    """The board answers a line with `error:N`."""

    def __init__(self, code: int) -> None:
        self.code = code


@dataclass(frozen=True, slots=True)
class Dwell:
    """Wait for the end of all motion, and then for a time."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Motion:
    """Move to a position or by a distance; without a feed at the largest speed."""

    target_mm: float
    is_relative: bool
    feed_mm_per_min: float | None


@dataclass(slots=True)
class Modes:
    """The modal state: what holds until another line changes it."""

    motion: int = 0
    feed_mm_per_min: float = 0.0
    is_absolute: bool = True
    in_inches: bool = False

    def to_mm(self, value: float) -> float:
        return value * (_MM_PER_INCH if self.in_inches else 1.0)


def strip(raw: str) -> str:
    """A line without comments and blanks, in capitals."""
    line = re.sub(r"\([^)]*\)?|;.*|[\s/]", "", raw).upper()
    if len(line) > _LONGEST_LINE:
        raise Refused(11)
    return line


class GcodeReader:
    """Reads one stripped line after another."""

    def __init__(self) -> None:
        self.modes = Modes()

    def read(self, line: str, *, jog: bool) -> Dwell | Motion | None:
        """The motion or the dwell of a line, if it has one. A jog does not change the modes."""
        modes = replace(self.modes, feed_mm_per_min=0.0) if jog else replace(self.modes)
        codes: list[int] = []
        values: dict[str, float] = {}
        for letter, value in _words(line):
            if letter == "G":
                codes.append(_apply(modes, value, jog=jog))
            elif letter == "F":
                modes.feed_mm_per_min = modes.to_mm(value)
            elif letter in "PXYZ":
                values[letter] = value
            elif letter not in "MNST":
                raise Refused(20)
        if sum(code in _MOTIONS for code in codes) > 1:
            raise Refused(24)
        if jog and modes.feed_mm_per_min <= 0:
            raise Refused(22)
        if _DWELL in codes:
            if "P" not in values:
                raise Refused(28)
            return Dwell(values["P"])
        if not jog:
            self.modes = modes
        return _motion(modes, values, machine=_MACHINE_COORDINATES in codes, jog=jog)


def _apply(modes: Modes, value: float, *, jog: bool) -> int:
    """Change the modes by a G word; return its code."""
    code = round(value * 10)
    if int(value) in (0, 1, 4) and code % 10:
        raise Refused(23)
    if code in _MOTIONS:
        modes.motion = _MOTIONS[code]
    elif code in _IN_INCHES:
        modes.in_inches = _IN_INCHES[code]
    elif code in _IS_ABSOLUTE:
        modes.is_absolute = _IS_ABSOLUTE[code]
    elif code not in _OTHERS:
        raise Refused(20)
    if jog and code in _NOT_IN_A_JOG:
        raise Refused(16)
    return code


def _motion(modes: Modes, values: dict[str, float], *, machine: bool, jog: bool) -> Motion | None:
    if "X" not in values:
        if jog and not values.keys() & {"Y", "Z"}:
            raise Refused(26)
        return None
    has_feed = modes.motion == 1 or jog
    if has_feed and modes.feed_mm_per_min <= 0:
        raise Refused(22)
    return Motion(
        target_mm=modes.to_mm(values["X"]),
        is_relative=not modes.is_absolute and not machine,
        feed_mm_per_min=modes.feed_mm_per_min if has_feed else None,
    )


def _words(line: str) -> list[tuple[str, float]]:
    words, at = [], 0
    while at < len(line):
        match = _WORD.match(line, at)
        if match is None:
            raise Refused(1)
        try:
            words.append((match[1], float(match[2])))
        except ValueError:
            raise Refused(2) from None
        at = match.end()
    return words
