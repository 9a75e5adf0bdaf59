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
_WITHOUT_EFFECT = frozenset({170, 400, 490, 540, 610, 800, 940})
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
        block = _Block(self.modes, jog=jog)
        for letter, value in _words(line):
            block.take(letter, value)
        block.check()
        if block.is_dwell:
            return Dwell(block.dwell_seconds())
        if not jog:
            self.modes = block.modes
        return block.motion()


class _Block:
    """The words of one line."""

    def __init__(self, modes: Modes, *, jog: bool) -> None:
        self.modes = replace(modes, feed_mm_per_min=0.0) if jog else replace(modes)
        self.is_dwell = False
        self._jog = jog
        self._x: float | None = None
        self._dwell_s: float | None = None
        self._in_machine_coordinates = False
        self._has_other_axes = False
        self._motion_words = 0

    def take(self, letter: str, value: float) -> None:
        if letter == "G":
            self._take_g(value)
        elif letter == "X":
            self._x = value
        elif letter in "YZ":
            self._has_other_axes = True
        elif letter == "F":
            self.modes.feed_mm_per_min = self.modes.to_mm(value)
        elif letter == "P":
            self._dwell_s = value
        elif letter not in "MNST":
            raise Refused(20)

    def _take_g(self, value: float) -> None:
        code = round(value * 10)
        if int(value) in (0, 1, 4) and code % 10:
            raise Refused(23)
        if code in _MOTIONS:
            self.modes.motion = _MOTIONS[code]
            self._motion_words += 1
        elif code == _DWELL:
            self.is_dwell = True
        elif code in _IN_INCHES:
            self.modes.in_inches = _IN_INCHES[code]
        elif code in _IS_ABSOLUTE:
            self.modes.is_absolute = _IS_ABSOLUTE[code]
        elif code == _MACHINE_COORDINATES:
            self._in_machine_coordinates = True
        elif code not in _WITHOUT_EFFECT:
            raise Refused(20)
        if self._jog and code in _NOT_IN_A_JOG:
            raise Refused(16)

    def check(self) -> None:
        if self._motion_words > 1:
            raise Refused(24)
        if self._jog and self.modes.feed_mm_per_min <= 0:
            raise Refused(22)

    def dwell_seconds(self) -> float:
        if self._dwell_s is None:
            raise Refused(28)
        return self._dwell_s

    def motion(self) -> Motion | None:
        if self._x is None:
            if self._jog and not self._has_other_axes:
                raise Refused(26)
            return None
        modes = self.modes
        has_feed = modes.motion == 1 or self._jog
        if has_feed and modes.feed_mm_per_min <= 0:
            raise Refused(22)
        return Motion(
            target_mm=modes.to_mm(self._x),
            is_relative=not modes.is_absolute and not self._in_machine_coordinates,
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
