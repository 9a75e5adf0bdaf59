"""The `[stage.zaber]` table."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from macontrol.config.sections.stage import AxisName, SerialStageSettings


class ZaberSettings(SerialStageSettings):
    """An axis of a device in a chain of Zaber devices."""

    driver: Literal["zaber"] = "zaber"
    axis: AxisName = "X"
    """X is axis 1, Y is axis 2, and so on"""
    device_address: Annotated[int, Field(ge=1, le=99)] = 1
    """which device of the chain"""
    microstep_mm: Annotated[float, Field(gt=0, le=10)] | Literal["unknown"] = "unknown"
    """the microstep size of the data sheet, at the device's resolution"""
