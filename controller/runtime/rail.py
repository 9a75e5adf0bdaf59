"""Positions on the rail: wavelengths in the controller, millimetres at a stage."""

from __future__ import annotations

from math import isnan, nan

from macontrol.config import Config


class Rail:
    """Converts positions; the only place of the runtime that does."""

    def __init__(self, config: Config) -> None:
        self.grid = config.grid
        self.clamp = self.grid.clamp
        self.to_mm = config.physical.to_mm
        self._to_wavelengths = config.physical.to_wavelengths

    def to_wavelengths(self, position_mm: float) -> float:
        """The position in wavelengths, without rounding error if it is on the grid."""
        return nan if isnan(position_mm) else self.grid.snap(self._to_wavelengths(position_mm))
