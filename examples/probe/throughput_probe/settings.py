"""The `[probe.throughput]` table, and `--probe iperf3://HOST:PORT`."""

from __future__ import annotations

import shlex
from typing import Annotated, Literal

from pydantic import Field, field_validator

from macontrol.config.sections.probe import ProbeSettings
from macontrol.config.sections.section import Words

_SCHEME = "iperf3://"
_IPERF3 = "iperf3 --client {host} --port {port} --time 0 --interval 0.1 --format m --forceflush"


class ThroughputSettings(ProbeSettings):
    """A command that runs all the time and prints one rate per line."""

    driver: Literal["throughput"] = "throughput"
    command: Words = _IPERF3.format(host="127.0.0.1", port=5201)
    """the command; it is started without a shell"""
    interval_s: Annotated[float, Field(gt=0, le=60)] = 0.1
    """the time that one line is about; it ends when the line arrives"""
    bandwidth_hz: Annotated[float, Field(gt=0, le=1e12)] = 20e6
    """the bandwidth of the link: the reward is in bit/s/Hz"""
    silence_s: Annotated[float, Field(ge=0.1, le=60)] = 2.0
    """after this time without a rate the command is started again"""

    @field_validator("command")
    @classmethod
    def _has_words(cls, value: str) -> str:
        if not shlex.split(value):
            raise ValueError("it is empty")
        return value

    @property
    def words(self) -> list[str]:
        """The command and its arguments."""
        return shlex.split(self.command)


def parse_option(text: str) -> dict[str, str] | None:
    """The command in `iperf3://HOST:PORT`."""
    if not text.startswith(_SCHEME):
        return None
    host, _, port = text.removeprefix(_SCHEME).partition(":")
    if not host or not (port or "5201").isdecimal():
        raise ValueError("the server must be a host and a port, as in iperf3://192.168.1.2:5201")
    return {"command": _IPERF3.format(host=shlex.quote(host), port=port or "5201")}
