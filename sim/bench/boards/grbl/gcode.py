"""How a GRBL board reads G-code: the part of it that one axis needs, and what it refuses."""

from __future__ import annotations

import re
from dataclasses import dataclass

_WORD = re.compile(r"([A-Z])([-+]?\d*\.?\d*)")
_MM_PER_INCH = 25.4
_LONGEST_LINE = 79


class Refused(Exception):  # noqa: N818 - it is an answer, not a mishap
    """A line is answered with `error:N`."""

    def __init__(self, code: int) -> None:
        self.code = code


@dataclass(frozen=True, slots=True)
class Dwell:
    """Wait until all motion is over, and then so long."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Motion:
    """Go to a position, or by a distance; as fast as it can if there is no feed."""

    target_mm: float
    is_relative: bool
    feed_mm_per_min: float | None


def strip(raw: str) -> str:
    """A line without comments and blanks, in capitals."""
    line = re.sub(r"\([^)]*\)?|;.*|[\s/]", "", raw).upper()
    if len(line) > _LONGEST_LINE:
        raise Refused(11)
    return line


class GcodeReader:
    """Reads one stripped line after another, and keeps what holds until it is said otherwise."""

    def __init__(self) -> None:
        self.motion = 0
        self.feed_mm_per_min = 0.0
        self._absolute = True
        self._inches = False

    def read(self, line: str, *, jog: bool) -> Dwell | Motion | None:
        """What a line asks for, if anything. A jog leaves no trace in what holds."""
        axis: float | None = None
        dwell_s: float | None = None
        in_machine = dwell = others = False
        absolute, inches, motion = self._absolute, self._inches, self.motion
        feed = 0.0 if jog else self.feed_mm_per_min
        moves = 0
        for letter, value in _words(line):
            if letter == "G":
                code = round(value * 10)
                if int(value) in (0, 1, 4) and code % 10:
                    raise Refused(23)
                if code in (0, 10):
                    motion, moves = code // 10, moves + 1
                elif code == 40:
                    dwell = True
                elif code in (200, 210):
                    inches = code == 200
                elif code in (900, 910):
                    absolute = code == 900
                elif code == 530:
                    in_machine = True
                elif code not in (170, 400, 490, 540, 610, 800, 940):
                    raise Refused(20)
                if jog and code in (0, 10, 170, 540, 940):
                    raise Refused(16)
            elif letter == "X":
                axis = value
            elif letter in "YZ":
                others = True
            elif letter == "F":
                feed = value * (_MM_PER_INCH if inches else 1.0)
            elif letter == "P":
                dwell_s = value
            elif letter not in "MNST":
                raise Refused(20)
        if moves > 1:
            raise Refused(24)
        if jog and feed <= 0:
            raise Refused(22)
        if dwell:
            if dwell_s is None:
                raise Refused(28)
            return Dwell(dwell_s)
        if not jog:
            self._absolute, self._inches, self.motion = absolute, inches, motion
            self.feed_mm_per_min = feed
        if axis is None:
            if jog and not others:
                raise Refused(26)
            return None
        if (motion == 1 or jog) and feed <= 0:
            raise Refused(22)
        return Motion(
            target_mm=axis * (_MM_PER_INCH if inches else 1.0),
            is_relative=not absolute and not in_machine,
            feed_mm_per_min=feed if motion == 1 or jog else None,
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
