"""Quantities as text, each in the unit that suits it."""

from __future__ import annotations

from macontrol.reports.batches import Mean


def duration_text(seconds: float) -> str:
    """How long something lasts: seconds, minutes or hours."""
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes = seconds / 60
    return f"{minutes:.1f} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def short_time_text(seconds: float) -> str:
    """A time within a slot: seconds, milliseconds or microseconds."""
    for unit, least in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= least:
            return f"{seconds / least:.3g} {unit}"
    return f"{seconds * 1e6:.2g} µs"


def distance_text(millimetres: float) -> str:
    """A distance: millimetres or metres."""
    return f"{millimetres / 1000:.2f} m" if millimetres >= 1000 else f"{millimetres:.0f} mm"


def gain_text(gain: Mean | None) -> str:
    """A mean gain in decibels with its standard error; a dash if it is unknown."""
    if gain is None:
        return "–"
    return f"{gain.value:+.2f}" + ("" if gain.error is None else f" ± {gain.error:.2f}") + " dB"


def number_text(value: float | None, form: str) -> str:
    """A number in this form; a dash if it is unknown."""
    return "–" if value is None else f"{value:{form}}"
