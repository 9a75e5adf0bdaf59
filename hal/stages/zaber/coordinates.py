"""Coordinates of a Zaber stage: microsteps to positions on the usable rail, and back."""

from __future__ import annotations

from macontrol.hal.serial.rail import usable_rail
from macontrol.hal.stages.zaber.device import DeviceAxis
from macontrol.hal.stages.zaber.settings import ZaberSettings


class Coordinates:
    """Valid from one homing to the next. `origin` is the position after homing (microsteps)."""

    def __init__(self, axis: DeviceAxis, settings: ZaberSettings, origin: int) -> None:
        self._rail = usable_rail(settings, axis.usable_mm, axis.microstep_mm)
        self._away = -1 if axis.homes_positive else 1
        self._inverted = settings.inverted
        self._origin = origin
        self._microstep_mm = axis.microstep_mm

    def to_rail(self, device: int) -> float:
        along = (device - self._origin) * self._away - self._rail.offset
        return self._mirror(along) * self._microstep_mm

    def to_device(self, position_mm: float) -> int:
        """The microstep nearest to a position; it is on the rail whatever the rounding."""
        along = min(max(round(position_mm / self._microstep_mm), 0), self._rail.length)
        return self._origin + self._away * (self._mirror(along) + self._rail.offset)

    @property
    def ends(self) -> tuple[int, int]:
        """Both ends of the usable rail (microsteps)."""
        near = self._origin + self._away * self._rail.offset
        return near, near + self._away * self._rail.length

    def _mirror(self, along: int) -> int:
        return self._rail.length - along if self._inverted else along
