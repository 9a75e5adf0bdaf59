"""The part of `[probe]` that software-defined radios share.

Levels are in dB relative to full scale (0 dBFS is mean |z|² = 1).
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from macontrol.config.model.rounding import at_most
from macontrol.config.sections.probe import ProbeSettings

LONGEST_WINDOW_S = 1.0
"""Of a longer transmission interval the last second is measured."""
LEAST_BAND_TIMES_WINDOW = 16.0
"""For a tone, in hertz times seconds: from this value on, transforms have their full length in any
window, and the noise floor and the slots are measured in the same band."""


class SdrSettings(ProbeSettings):
    """A radio, its tuning, and what makes a measurement of its samples valid."""

    converter_lo_hz: Annotated[float, Field(gt=0, le=1e15)] | Literal["none", "unknown"] = "unknown"
    """Hz; "none": no converter; "unknown": the RF plan is not checked"""
    tuner_frequency_hz: Annotated[float, Field(gt=0, lt=2**32)] = 433.67e6
    """beside the centre of the signal, away from the receiver's own DC line"""
    sample_rate_hz: Annotated[float, Field(ge=8_000, le=20_000_000)] = 2.048e6
    """the rate at which the radio samples, and the width of the received band"""
    gain_db: Annotated[float, Field(ge=-30, le=100)] = 20.0
    """fixed for a run; automatic gain is off"""
    ppm: Annotated[int, Field(ge=-1000, le=1000)] = 0
    """correction of the receiver's oscillator"""
    mode: Literal["wideband", "tone"] = "wideband"
    """wideband: all that is received | tone: a narrow band of it"""
    tone_offset_hz: float = 250e3
    """in mode tone: where the signal is, from the tuner's frequency"""
    tone_bandwidth_hz: Annotated[float, Field(gt=0)] = 20e3
    """in mode tone: as wide as the error of the oscillators"""
    least_samples: Annotated[int, Field(ge=16)] = 2000
    """fewer in a slot are no measurement: 0.1 dB for noise"""
    delay_s: Annotated[float, Field(ge=-1, le=1)] = 0.0
    """the delay that the radio adds to every arrival, if known"""
    clipping_share: Annotated[float, Field(ge=0, lt=1)] = 0.001
    """with a larger share of clipped samples a measurement is invalid"""
    silence_s: Annotated[float, Field(ge=0.1, le=60)] = 2.0
    """after this time without samples the radio is opened again"""

    usual_range_hz: ClassVar[tuple[float, float]] = (1.0, 2.0**32 - 2)
    """Frequencies that are worth suggesting for the tuner."""

    @model_validator(mode="after")
    def _refuse_contradictions(self) -> SdrSettings:
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
