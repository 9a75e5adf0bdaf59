"""The characters of the live view, in Unicode and in ASCII."""

from __future__ import annotations

from dataclasses import dataclass


def can_show(encoding: str | None) -> bool:
    """Whether an encoding has the characters of the live view."""
    try:
        "λ▁█●─".encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


@dataclass(frozen=True)
class Glyphs:
    """The characters that the live view draws with."""

    antenna: str
    target: str
    rail: str
    bars: str
    """From the lowest to the highest."""
    wavelength: str
    micro: str
    plus_minus: str
    ellipsis: str
    none: str
    """Where there is no number."""
    between: str


UNICODE = Glyphs("●", "○", "─", "▁▂▃▄▅▆▇█", "λ", "µ", "±", "…", "–", "·")
ASCII = Glyphs("@", "o", "-", "_.:-=+*#", "wl", "u", "+-", "...", "-", "-")
