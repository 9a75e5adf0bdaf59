"""The `[stage.grbl]` table."""

from __future__ import annotations

from typing import Literal

from macontrol.config.sections.stage import AxisName, SerialStageSettings


class GrblSettings(SerialStageSettings):
    """A stage on an axis of a GRBL board."""

    driver: Literal["grbl"] = "grbl"
    axis: AxisName = "X"
    """the axis of the board that moves the antenna"""
    homing_command: Literal["auto", "all", "axis"] = "auto"
    """"auto": home this axis alone where the board can"""
