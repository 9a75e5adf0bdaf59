"""The `[probe.line]` table, and `--probe line:///dev/ttyACM0`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from macontrol.config.sections.probe import ProbeSettings
from macontrol.config.sections.section import Words

_SCHEME = "line://"


class LineSettings(ProbeSettings):
    """A detector whose readings arrive as one number per line over a serial port."""

    driver: Literal["line"] = "line"
    port: Words = "/dev/ttyACM0"
    """the serial port; a name under /dev/serial/by-id stays the same"""
    baud_rate: Annotated[int, Field(ge=300, le=12_000_000)] = 115_200
    """bits per second of the port"""
    reading_a: float = 0.75
    """the first point of the calibration; the defaults are an AD8318 that is read in volts"""
    dbm_a: Annotated[float, Field(ge=-200, le=100)] = -10.0
    """the power at reading_a"""
    reading_b: float = 1.75
    """the second point of the calibration"""
    dbm_b: Annotated[float, Field(ge=-200, le=100)] = -50.0
    """the power at reading_b"""
    lowest_reading: float = 0.0
    """a reading at or below this is clipped"""
    highest_reading: float = 3.3
    """a reading at or above this is clipped"""
    resolution_db: Annotated[float, Field(gt=0, le=10)] = 0.2
    """the step of the converter: readings have at least its uncertainty"""
    least_readings: Annotated[int, Field(ge=2)] = 4
    """fewer in a slot are no measurement"""
    junk_share: Annotated[float, Field(ge=0, lt=1)] = 0.1
    """with a larger share of lines that are not numbers a measurement is invalid"""
    silence_s: Annotated[float, Field(ge=0.1, le=60)] = 2.0
    """after this time without a line the port is opened again"""

    @model_validator(mode="after")
    def _refuse_contradictions(self) -> LineSettings:
        if self.reading_a == self.reading_b or self.dbm_a == self.dbm_b:
            raise ValueError("the two points of the calibration must differ in reading and in dBm")
        if self.lowest_reading >= self.highest_reading:
            raise ValueError("set lowest_reading below highest_reading")
        return self

    def dbm(self, reading: float) -> float:
        """The power of a reading, on the line through the two points."""
        slope = (self.dbm_b - self.dbm_a) / (self.reading_b - self.reading_a)
        return self.dbm_a + slope * (reading - self.reading_a)

    def reading(self, dbm: float) -> float:
        """The reading of a power, on the same line."""
        slope = (self.reading_b - self.reading_a) / (self.dbm_b - self.dbm_a)
        return self.reading_a + slope * (dbm - self.dbm_a)


def parse_option(text: str) -> dict[str, str] | None:
    """The port in `line:///dev/ttyACM0`."""
    if not text.startswith(_SCHEME):
        return None
    port = text.removeprefix(_SCHEME)
    if not port.startswith("/"):
        raise ValueError("the port must be a path, as in line:///dev/ttyACM0")
    return {"port": port}
