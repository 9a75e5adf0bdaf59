"""Coordinates of a GRBL stage: machine coordinates to positions on the usable rail, and back.

Distances along the rail are counted from where the carriage stands after homing. So neither the
sign of the machine coordinates, nor the pull-off, nor the zero of a dialect matters.
"""

from __future__ import annotations

from macontrol.hal.serial.rail import usable_rail
from macontrol.hal.stages.grbl.board import Axis
from macontrol.hal.stages.grbl.settings import GrblSettings


class Coordinates:
    """Valid from one homing to the next. `origin_mm` is the machine coordinate after homing."""

    def __init__(self, axis: Axis, settings: GrblSettings, origin_mm: float) -> None:
        self._rail = usable_rail(settings, axis.usable_mm, axis.step_mm)
        self._away = -1.0 if axis.homes_positive else 1.0
        self._inverted = settings.inverted
        self._origin_mm = origin_mm

    def to_rail(self, machine_mm: float) -> float:
        position = (machine_mm - self._origin_mm) * self._away - self._rail.offset_mm
        return self._mirror(position) + 0.0  # no negative zero

    def to_machine(self, position_mm: float) -> float:
        along = self._mirror(position_mm)
        return self._origin_mm + self._away * (along + self._rail.offset_mm)

    def _mirror(self, position_mm: float) -> float:
        return self._rail.travel_mm - position_mm if self._inverted else position_mm
