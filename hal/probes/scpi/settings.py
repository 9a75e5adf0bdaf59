"""The `[probe.scpi]` table, `--probe scpi://HOST:PORT` and `--probe visa://RESOURCE`."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, model_validator

from macontrol.config.model.address import split_address, with_port
from macontrol.config.sections.probe import ProbeSettings
from macontrol.config.sections.section import Address, Positive, Words

DEFAULT_PORT = 5025
"""Where most instruments listen for SCPI."""
_SCHEME, _VISA_SCHEME = "scpi://", "visa://"

Kept: TypeAlias = Literal["keep"]
Unit: TypeAlias = Literal["dBm", "dB", "linear"]


class ScpiSettings(ProbeSettings):
    """An instrument that measures a power, or a power ratio, by SCPI commands."""

    driver: Literal["scpi"] = "scpi"
    address: Address = f"127.0.0.1:{DEFAULT_PORT}"
    """HOST:PORT of the instrument"""
    resource: Words = ""
    """a VISA resource instead of the address, as in "GPIB0::20::INSTR"; this needs PyVISA"""
    commands: Literal["zero-span", "marker", "s21", "custom"] = "zero-span"
    """what is measured: the trace at zero span, marker 1, S21, or what `read` reads"""
    frequency_hz: Positive | Kept = "keep"
    """the centre frequency, or the marker's; "keep": as it is set at the instrument"""
    bandwidth_hz: Positive | Kept = "keep"
    """the resolution or measuring bandwidth, or "keep\""""
    sweep_s: Positive | Kept = "keep"
    """the time of a sweep, which must end within the measuring interval, or "keep\""""
    setup: Annotated[tuple[Words, ...], Field(strict=False, max_length=64)] = ()
    """further commands when the instrument is opened, after those of the command set"""
    trigger: Words = "INIT:IMM"
    """starts a sweep; the probe adds *OPC? to it and waits for the answer"""
    read: Words = ""
    """with commands = "custom", the query of the result: one number, or several with commas"""
    unit: Unit = "dBm"
    """with commands = "custom", what these numbers are"""
    least_sigma_db: Annotated[float, Field(gt=0, le=10)] = 0.1
    """the uncertainty of a level is at least this"""

    @model_validator(mode="after")
    def _refuse_contradictions(self) -> ScpiSettings:
        for command in (*self.setup, self.trigger, self.read):
            if not command.isascii():
                raise ValueError(f"{command!r} has a character that SCPI does not have")
        # An answer that is not read would be assigned to the next query.
        for command in (*self.setup, self.trigger):
            if "?" in command:
                raise ValueError(f"{command!r} is a query; setup and trigger take commands only")
        if self.commands == "custom" and self.read.count("?") != 1:
            raise ValueError('commands = "custom" needs exactly one query in read')
        if self.commands != "custom" and (self.read or self.unit != "dBm"):
            raise ValueError('read and unit have an effect with commands = "custom" only')
        return self


def server_port(settings: Any) -> int:
    """The TCP port of the instrument; 0 for a VISA resource."""
    return 0 if settings.resource else split_address(settings.address)[1]


def parse_option(text: str) -> dict[str, str] | None:
    """The address in `scpi://HOST:PORT`, whose port may be left out, or a VISA resource."""
    if text.startswith(_VISA_SCHEME):
        resource = text.removeprefix(_VISA_SCHEME)
        if not resource:
            raise ValueError("the resource is missing, as in visa://GPIB0::20::INSTR")
        return {"resource": resource}
    if not text.startswith(_SCHEME):
        return None
    address = with_port(text.removeprefix(_SCHEME).rstrip("/"), DEFAULT_PORT)
    return {"address": address, "resource": ""}
