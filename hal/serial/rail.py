"""The usable rail of an axis: its whole steps, its coordinates, and whether the settings fit."""

from __future__ import annotations

import os
from dataclasses import dataclass
from math import ceil, floor

from macontrol.config.model.errors import ConfigError
from macontrol.config.model.rounding import at_most
from macontrol.config.sections.stage import StageSettings
from macontrol.hal.stage import StageDescription

LONGEST_HOMING_S = 1800.0
"""A longer homing is an error in the settings, unless it is configured explicitly."""


@dataclass(frozen=True, kw_only=True)
class Axis:
    """The configured axis of a board, from the settings of the board."""

    step_mm: float
    usable_mm: float
    """From where the carriage stands after homing to the other end."""
    speed_mm_per_s: float
    acceleration_mm_per_s2: float
    homes_positive: bool
    homing_time_s: float
    """The longest time that homing takes."""


def require_fit(
    settings: StageSettings, axis: Axis, *, board: str, travel_source: str, speed_source: str
) -> None:
    """Raise ConfigError if offset, travel or speed exceed what the board allows.

    The sources say which settings of the board cause it, for messages.
    """
    usable = axis.usable_mm - settings.offset_mm
    if usable < axis.step_mm:
        raise ConfigError(
            f"stage.offset_mm = {settings.offset_mm:g} leaves nothing of the {board}'s travel "
            f"({travel_source})",
            "set a smaller stage.offset_mm",
        )
    if settings.travel_mm != "auto" and settings.travel_mm > usable + 1e-6:
        raise ConfigError(
            f"stage.travel_mm = {settings.travel_mm:g} is more than the {board} has: "
            f"{usable:g} mm after stage.offset_mm ({travel_source})",
            f"set stage.travel_mm to at most {at_most(usable)}",
        )
    fastest = axis.speed_mm_per_s
    if settings.speed_mm_per_s != "auto" and settings.speed_mm_per_s > fastest * (1 + 1e-9):
        raise ConfigError(
            f"stage.speed_mm_per_s = {settings.speed_mm_per_s:g} is more than the {board} "
            f"allows: {speed_source}",
            f"set stage.speed_mm_per_s to at most {at_most(fastest)}",
        )


def homing_time_s(settings: StageSettings, computed_s: float, reason: str) -> float:
    """The longest time that homing takes; `reason` says which settings of the board cause it."""
    if settings.homing_time_s != "auto":
        return settings.homing_time_s
    if computed_s > LONGEST_HOMING_S:
        raise ConfigError(
            f"homing could take {computed_s / 60:.0f} minutes: {reason}",
            "raise that on the board, or set stage.homing_time_s to the longest time it may take",
        )
    return computed_s


def _usable_steps(settings: StageSettings, axis: Axis) -> tuple[int, int]:
    """Offset (from where the carriage stands after homing) and length of the usable rail."""
    offset = ceil(settings.offset_mm / axis.step_mm - 1e-9)
    travel = axis.usable_mm - offset * axis.step_mm
    if settings.travel_mm != "auto":
        travel = min(travel, settings.travel_mm)
    return offset, floor(travel / axis.step_mm + 1e-9)


def describe(
    settings: StageSettings, axis: Axis, *, latency_s: float, tolerance_mm: float
) -> StageDescription:
    """Describe a stage on this axis."""
    speed = settings.speed_mm_per_s
    return StageDescription(
        name=os.path.realpath(settings.port),
        travel_mm=_usable_steps(settings, axis)[1] * axis.step_mm,
        step_mm=axis.step_mm,
        speed_mm_per_s=axis.speed_mm_per_s if speed == "auto" else speed,
        acceleration_mm_per_s2=axis.acceleration_mm_per_s2,
        latency_s=latency_s,
        settling_s=settings.settling_s,
        tolerance_mm=tolerance_mm,
    )


class Coordinates:
    """Positions of a board to positions on the usable rail, and back, until the next homing.

    Distances are counted from `origin`, where the carriage stands after homing. So neither the sign
    of the board's positions, nor a pull-off, nor the zero of a dialect matters. The board counts in
    millimetres, or in whole steps.
    """

    def __init__(
        self, settings: StageSettings, axis: Axis, origin: float, *, in_steps: bool
    ) -> None:
        scale = 1.0 if in_steps else axis.step_mm
        self._offset, self._length = (steps * scale for steps in _usable_steps(settings, axis))
        self._unit_mm = axis.step_mm if in_steps else 1.0
        self._in_steps = in_steps
        self._away = -1.0 if axis.homes_positive else 1.0
        self._inverted = settings.inverted
        self._origin = origin

    def to_rail(self, board: float) -> float:
        along = (board - self._origin) * self._away - self._offset
        return self._mirror(along) * self._unit_mm + 0.0  # no negative zero

    def to_board(self, position_mm: float) -> float:
        """The position of the board; the nearest step on the rail if it counts in steps."""
        along = position_mm / self._unit_mm
        if self._in_steps:
            along = min(max(round(along), 0), self._length)
        return self._origin + self._away * (self._mirror(along) + self._offset)

    def _mirror(self, along: float) -> float:
        return self._length - along if self._inverted else along
