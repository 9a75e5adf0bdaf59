"""The usable rail of an axis: its part in whole steps, and whether the settings fit the board."""

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


@dataclass(frozen=True, slots=True)
class AxisLimits:
    """What a board allows on its axis, and which of its settings say so, for messages."""

    board: str
    """What its maker calls the hardware: "board" or "device"."""
    step_mm: float
    usable_mm: float
    """From where the carriage stands after homing to the other end."""
    travel_source: str
    speed_mm_per_s: float
    speed_source: str


def require_fit(settings: StageSettings, axis: AxisLimits) -> None:
    """Raise ConfigError if offset, travel or speed exceed what the board allows."""
    usable = axis.usable_mm - settings.offset_mm
    if usable < axis.step_mm:
        raise ConfigError(
            f"stage.offset_mm = {settings.offset_mm:g} leaves nothing of the {axis.board}'s travel "
            f"({axis.travel_source})",
            "set a smaller stage.offset_mm",
        )
    if settings.travel_mm != "auto" and settings.travel_mm > usable + 1e-6:
        raise ConfigError(
            f"stage.travel_mm = {settings.travel_mm:g} is more than the {axis.board} has: "
            f"{usable:g} mm after stage.offset_mm ({axis.travel_source})",
            f"set stage.travel_mm to at most {at_most(usable)}",
        )
    fastest = axis.speed_mm_per_s
    if settings.speed_mm_per_s != "auto" and settings.speed_mm_per_s > fastest * (1 + 1e-9):
        raise ConfigError(
            f"stage.speed_mm_per_s = {settings.speed_mm_per_s:g} is more than the {axis.board} "
            f"allows: {axis.speed_source}",
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


@dataclass(frozen=True, slots=True)
class UsableRail:
    """The part of an axis that is used, in steps."""

    step_mm: float
    offset: int
    """From where the carriage stands after homing to the near end."""
    length: int

    @property
    def offset_mm(self) -> float:
        return self.offset * self.step_mm

    @property
    def travel_mm(self) -> float:
        return self.length * self.step_mm


def usable_rail(settings: StageSettings, usable_mm: float, step_mm: float) -> UsableRail:
    """The usable rail within `usable_mm`, with offset and travel of the settings."""
    offset = ceil(settings.offset_mm / step_mm - 1e-9)
    travel = usable_mm - offset * step_mm
    if settings.travel_mm != "auto":
        travel = min(travel, settings.travel_mm)
    return UsableRail(step_mm, offset, floor(travel / step_mm + 1e-9))


def describe(
    settings: StageSettings,
    rail: UsableRail,
    *,
    speed_mm_per_s: float,
    acceleration_mm_per_s2: float,
    latency_s: float,
    tolerance_mm: float,
) -> StageDescription:
    """The description of a stage; `speed_mm_per_s` is that of the board."""
    speed = settings.speed_mm_per_s
    return StageDescription(
        name=os.path.realpath(settings.port),
        travel_mm=rail.travel_mm,
        step_mm=rail.step_mm,
        speed_mm_per_s=speed_mm_per_s if speed == "auto" else speed,
        acceleration_mm_per_s2=acceleration_mm_per_s2,
        latency_s=latency_s,
        settling_s=settings.settling_s,
        tolerance_mm=tolerance_mm,
    )
