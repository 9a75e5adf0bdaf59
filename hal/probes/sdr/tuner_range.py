"""The frequency ranges of a tuner: others are refused before the radio is tuned."""

from __future__ import annotations

from collections.abc import Sequence

from macontrol.config.checks.rf_plan import mega
from macontrol.config.model.errors import ConfigError


def refuse_beyond(tuner_hz: float, ranges_hz: Sequence[tuple[float, float]], tuner: str) -> None:
    """Raise ConfigError for a frequency outside all ranges; an empty list means unknown ranges."""
    if not ranges_hz or any(low <= tuner_hz <= high for low, high in ranges_hz):
        return
    received = " and ".join(f"{mega(low)} to {mega(high)}" for low, high in ranges_hz)
    raise ConfigError(
        f"probe.tuner_frequency_hz: {mega(tuner_hz)} is outside the range of the radio: its "
        f"{tuner} receives {received}",
        "tune to a frequency in that range, with a converter between antenna and radio "
        "(probe.converter_lo_hz) if the carrier is outside it, or use another radio",
    )
