"""What a radio's tuner can receive: a frequency beyond it is refused before it is tuned."""

from __future__ import annotations

from collections.abc import Sequence

from macontrol.config.checks.rf_plan import mega
from macontrol.config.model.errors import ConfigError


def refuse_beyond(tuner_hz: float, ranges_hz: Sequence[tuple[float, float]], tuner: str) -> None:
    """Raise ConfigError for a frequency outside all ranges; no ranges mean that none is known."""
    if not ranges_hz or any(low <= tuner_hz <= high for low, high in ranges_hz):
        return
    can = " and ".join(f"{mega(low)} to {mega(high)}" for low, high in ranges_hz)
    raise ConfigError(
        f"probe.tuner_frequency_hz: {mega(tuner_hz)} is beyond the radio: its {tuner} receives "
        f"{can}; tune within that, with a converter between antenna and radio if the carrier is "
        "not (probe.converter_lo_hz), or use another radio"
    )
