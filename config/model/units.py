"""Conversions of units: wavelengths and millimetres, ratios and decibels.

Positions are in wavelengths in the controller and in millimetres at a stage.
"""

from __future__ import annotations

from math import inf, log10
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Length = TypeVar("Length", float, "NDArray[np.float64]")

SPEED_OF_LIGHT_M_PER_S = 299_792_458.0


def wavelength_mm(frequency_hz: float) -> float:
    """The wavelength of a carrier in millimetres."""
    return SPEED_OF_LIGHT_M_PER_S / frequency_hz * 1e3


def to_mm(wavelengths: Length, frequency_hz: float) -> Length:
    """A length in wavelengths of a carrier, in millimetres."""
    return wavelengths * wavelength_mm(frequency_hz)


def to_wavelengths(length_mm: Length, frequency_hz: float) -> Length:
    """A length in millimetres, in wavelengths of a carrier."""
    return length_mm / wavelength_mm(frequency_hz)


def from_db(decibels: float) -> float:
    """A ratio of powers from decibels."""
    return float(10.0 ** (decibels / 10.0))


def to_db(power_ratio: float) -> float:
    """A ratio of powers in decibels; −inf for no power."""
    return 10.0 * log10(power_ratio) if power_ratio > 0 else -inf


def amplitude_from_db(decibels: float) -> float:
    """A ratio of amplitudes from decibels."""
    return float(10.0 ** (decibels / 20.0))
