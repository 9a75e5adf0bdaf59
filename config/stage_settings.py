"""The `[stage]` table: which stage there is, how to reach it, and how its rail lies.

What the board itself knows (steps, speed, acceleration, travel) is read from it; what is set here
may narrow that, never widen it.
"""

from __future__ import annotations

import os
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from macontrol.config.section import Section, Words

Auto: TypeAlias = Literal["auto"]
Off: TypeAlias = Literal["off"]
Unknown: TypeAlias = Literal["unknown"]
Length: TypeAlias = Annotated[float, Field(gt=0, le=1e5)]
Offset: TypeAlias = Annotated[float, Field(ge=0, le=1e5)]
Speed: TypeAlias = Annotated[float, Field(gt=0, le=1e5)]
ControlLine: TypeAlias = Literal["assert", "clear", "pulse"]
AXES = "XYZABC"
"""The axes a board may have, in the order in which it counts them."""


class StageSettings(Section):
    """A serial stage. Distances along the rail are counted from where it stands after homing."""

    driver: Literal["grbl", "zaber"]
    port: Annotated[Words, Field(min_length=1)]
    baud_rate: Annotated[int, Field(ge=1200, le=4_000_000)]
    dtr: ControlLine
    rts: ControlLine
    axis: Literal["X", "Y", "Z", "A", "B", "C"]
    device_address: Annotated[int, Field(ge=1, le=99)]
    microstep_mm: Annotated[float, Field(gt=0, le=10)] | Unknown
    offset_mm: Offset
    travel_mm: Length | Auto
    inverted: bool
    speed_mm_per_s: Speed | Auto
    settling_s: Annotated[float, Field(ge=0, le=10)]
    homing: Literal["ask", "allow"]
    homing_command: Literal["auto", "all", "axis"]
    homing_direction: Literal["auto", "positive", "negative"]
    homing_time_s: Annotated[float, Field(gt=0, le=3600)] | Auto
    rehome_every_s: Annotated[float, Field(ge=1, le=1e9)] | Off

    @property
    def port_path(self) -> str:
        """The port as it was called, as a whole path: links are not followed."""
        return os.path.abspath(self.port)
