"""Positions on the rail: wavelengths in the controller, millimetres at a stage."""

from __future__ import annotations

from math import isnan, nan

from macontrol.config import Config


class Rail:
    """Converts positions; the only place of the runtime that does."""

    def __init__(self, config: Config) -> None:
        self.grid = config.grid
        self._wavelength_mm = config.physical.wavelength_mm

    def to_mm(self, position: float) -> float:
        return position * self._wavelength_mm

    def to_wavelengths(self, position_mm: float) -> float:
        """The position in wavelengths, without rounding error if it is on the grid."""
        return nan if isnan(position_mm) else self.grid.snap(position_mm / self._wavelength_mm)

    def clamp(self, position: float) -> float:
        """The nearest position (wavelengths) that is on the rail."""
        return min(max(position, 0.0), self.grid.length)
