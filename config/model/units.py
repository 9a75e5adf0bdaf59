"""Conversions of units: the wavelength of a carrier, ratios and decibels."""

from __future__ import annotations

from math import inf, log10

SPEED_OF_LIGHT_M_PER_S = 299_792_458.0
ON_GRID = 1e-9
"""Two positions that differ by less (wavelengths) are the same place."""


def wavelength_mm(frequency_hz: float) -> float:
    """The wavelength of a carrier in millimetres."""
    return SPEED_OF_LIGHT_M_PER_S / frequency_hz * 1e3


def from_db(decibels: float) -> float:
    """A ratio of powers from decibels; inf if it is too large for a float."""
    try:
        return float(10.0 ** (decibels / 10.0))
    except OverflowError:
        return inf


def to_db(power_ratio: float) -> float:
    """A ratio of powers in decibels; −inf for no power."""
    return 10.0 * log10(power_ratio) if power_ratio > 0 else -inf


def known_db(power_ratio: float) -> float | None:
    """A ratio of powers in decibels; None for no power, and for what is not a number."""
    return 10.0 * log10(power_ratio) if 0 < power_ratio < inf else None


def amplitude_from_db(decibels: float) -> float:
    """A ratio of amplitudes from decibels."""
    return float(10.0 ** (decibels / 20.0))
