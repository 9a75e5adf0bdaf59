"""The `[probe]` table: which radio measures the link, and how.

Times are in seconds, levels in dB relative to full scale (0 dBFS is mean |z|² = 1).
"""

from __future__ import annotations

import re
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, field_validator, model_validator

from macontrol.config.model.errors import UsageError
from macontrol.config.model.rounding import at_most
from macontrol.config.model.suggestion import shortened
from macontrol.config.section import Section, Words

Seconds: TypeAlias = Annotated[float, Field(ge=0, le=60)]

LONGEST_WINDOW_S = 1.0
"""Of a longer transmission interval the last second is measured."""
LEAST_BAND_TIMES_WINDOW = 16.0
"""Of a tone, in hertz times seconds: from there on transforms have their full length in any window,
and the noise floor and the slots are measured in the same band."""


class ProbeSettings(Section):
    """The radio, its tuning, and what makes a measurement valid."""

    driver: Literal["rtl_tcp", "soapy"]
    address: Words
    soapy_arguments: Words
    soapy_stream: Words
    converter_lo_hz: Annotated[float, Field(gt=0, le=1e15)] | Literal["none", "unknown"]
    tuner_frequency_hz: Annotated[float, Field(gt=0, lt=2**32)]
    sample_rate_hz: Annotated[float, Field(ge=8_000, le=20_000_000)]
    gain_db: Annotated[float, Field(ge=-30, le=100)]
    ppm: Annotated[int, Field(ge=-1000, le=1000)]
    mode: Literal["wideband", "tone"]
    tone_offset_hz: float
    tone_bandwidth_hz: Annotated[float, Field(gt=0)]
    least_samples: Annotated[int, Field(ge=16)]
    guard_s: Annotated[float, Field(ge=0.001, le=1)]
    lead_s: Annotated[float, Field(ge=0, le=1)]
    delay_s: Annotated[float, Field(ge=-1, le=1)]
    settling_s: Annotated[float, Field(ge=0.05, le=60)]
    clipping_share: Annotated[float, Field(ge=0, lt=1)]
    noise_floor: Annotated[float, Field(ge=-200, le=0)] | Literal["measure"]
    noise_floor_s: Annotated[float, Field(ge=0.05, le=60)]
    floor_drift_db: Annotated[float, Field(ge=0.01, le=10)]
    no_signal_slots: Annotated[int, Field(ge=2, le=100_000)] | Literal["off"]
    dbm_offset_db: float | Literal["unknown"]
    connect_timeout_s: Annotated[float, Field(ge=0.1, le=60)]
    silence_s: Annotated[float, Field(ge=0.1, le=60)]
    stale_s: Annotated[float, Field(ge=0.1, le=10)]

    @field_validator("address")
    @classmethod
    def _is_an_address(cls, value: str) -> str:
        split_address(value)
        return value

    @model_validator(mode="after")
    def _refuse_contradictions(self) -> ProbeSettings:
        half = self.sample_rate_hz / 2
        if self.mode == "tone" and abs(self.tone_offset_hz) + self.tone_bandwidth_hz / 2 > half:
            farthest = at_most(half - self.tone_bandwidth_hz / 2)
            fix = f"probe.tone_offset_hz to {'-' if self.tone_offset_hz < 0 else ''}{farthest}"
            if float(farthest) <= 0:
                fix = f"probe.tone_bandwidth_hz to at most {at_most(half)}"
            raise ValueError(
                f"tone_offset_hz {self.tone_offset_hz:g} with tone_bandwidth_hz "
                f"{self.tone_bandwidth_hz:g} reaches beyond the ±{half:g} Hz that "
                f"sample_rate_hz {self.sample_rate_hz:g} covers; set {fix}"
            )
        return self

    def dbm(self, dbfs: float) -> float | None:
        """A level in dBm, if the offset between the two scales is known."""
        return None if self.dbm_offset_db == "unknown" else dbfs + self.dbm_offset_db


def split_address(address: str) -> tuple[str, int]:
    """The host and port of `HOST:PORT` or `[IPv6]:PORT`."""
    host, colon, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not (colon and host and re.fullmatch("[0-9]{1,5}", port) and 0 < int(port) < 65536):
        raise ValueError(f"{shortened(address)} is not HOST:PORT, as in 127.0.0.1:1234")
    return host, int(port)


def parse_probe_option(text: str) -> dict[str, str]:
    """The keys of `[probe]` that `--probe rtl_tcp://HOST:PORT` or `--probe soapy:ARGS` sets."""
    if text.startswith("rtl_tcp://"):
        address = text.removeprefix("rtl_tcp://").rstrip("/")
        if address and ":" not in address.rpartition("]")[2]:
            address += ":1234"
        try:
            split_address(address)
        except ValueError as error:
            raise UsageError(f"--probe: {error}") from None
        return {"driver": "rtl_tcp", "address": address}
    if text.startswith("soapy:"):
        return {"driver": "soapy", "soapy_arguments": text.removeprefix("soapy:")}
    raise UsageError(
        f"--probe {shortened(text)}: give rtl_tcp://HOST:PORT, or soapy:ARGUMENTS as in "
        "soapy:driver=rtlsdr"
    )
