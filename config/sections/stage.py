"""The `[stage]` table: which stage there is, how to reach it, and how its rail lies.

The board knows its own steps, speed, acceleration and travel. Settings here may narrow that, never
widen it. `config.sections.physical` says how these settings relate to those of `[physical]`.
"""

from __future__ import annotations

import os
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from macontrol.config.sections.driver import DriverSettings
from macontrol.config.sections.section import Auto, Words

Off: TypeAlias = Literal["off"]
Length: TypeAlias = Annotated[float, Field(gt=0, le=1e5)]
Offset: TypeAlias = Annotated[float, Field(ge=0, le=1e5)]
Speed: TypeAlias = Annotated[float, Field(gt=0, le=1e5)]
ControlLine: TypeAlias = Literal["assert", "clear", "pulse"]
AxisName: TypeAlias = Literal["X", "Y", "Z", "A", "B", "C"]
AXES = "XYZABC"
"""The axes a board may have, in the order in which it counts them."""


class StageSettings(DriverSettings):
    """A stage. Positions along the rail are counted from where it stands after homing."""

    port: Annotated[Words, Field(min_length=1)] = "/dev/macontrol-stage"
    """the port of the stage; --port sets it"""
    offset_mm: Offset = 0.0
    """from the end of homing to the low end of the usable rail"""
    travel_mm: Length | Auto = "auto"
    """the usable rail; "auto": as the board reports"""
    inverted: bool = False
    """whether the low end of the rail is the one away from the switch"""
    speed_mm_per_s: Speed | Auto = "auto"
    """"auto": as the board reports"""
    settling_s: Annotated[float, Field(ge=0, le=10)] = 0.0
    """how long the carriage swings after a move"""
    homing: Literal["ask", "allow"] = "ask"
    """before the stage moves: ask a person, or home without asking (allow)"""
    homing_direction: Literal["auto", "positive", "negative"] = "auto"
    """"auto": as in the board's settings"""
    homing_time_s: Annotated[float, Field(gt=0, le=3600)] | Auto = 120.0
    """the longest time that homing may take"""
    rehome_every_s: Annotated[float, Field(ge=1, le=1e9)] | Off = "off"
    """home again after this time, as lost steps do not show; or "off\""""

    @property
    def port_path(self) -> str:
        """The port as it was given, as an absolute path: links are not followed."""
        return os.path.abspath(self.port)


class SerialStageSettings(StageSettings):
    """A stage behind a serial port."""

    baud_rate: Annotated[int, Field(ge=1200, le=4_000_000)] = 115200
    """the speed of the serial port"""
    dtr: ControlLine = "assert"
    """what opening the port does to this line: assert | clear | pulse"""
    rts: ControlLine = "assert"
    """as dtr, for the line RTS"""
