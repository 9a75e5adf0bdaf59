"""The `[probe.soapy]` table, and `--probe soapy:ARGS`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from macontrol.config.sections.sdr import SdrSettings
from macontrol.config.sections.section import Words

_SCHEME = "soapy:"


class SoapySettings(SdrSettings):
    """A radio that SoapySDR has a module for."""

    driver: Literal["soapy"] = "soapy"
    arguments: Words = ""
    """which device, as in "driver=rtlsdr,serial=1\""""
    stream_arguments: Words = "bufflen=16384"
    """short buffers make rewards arrive soon"""

    former_keys: ClassVar[Mapping[str, str]] = {
        "soapy_arguments": "arguments",
        "soapy_stream": "stream_arguments",
    }


def parse_option(text: str) -> dict[str, str] | None:
    """The arguments in `soapy:ARGS`."""
    return {"arguments": text.removeprefix(_SCHEME)} if text.startswith(_SCHEME) else None
