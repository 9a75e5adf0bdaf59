"""The measurement of a slot from its power reading and the noise floor."""

from __future__ import annotations

from macontrol.config.model.reward import Power
from macontrol.config.model.units import from_db
from macontrol.hal.noise_floor import NoiseFloor
from macontrol.hal.probe import NO_SIGNAL, TONE_LOST, Measurement
from macontrol.hal.probes.sdr.power import PowerReading

# A line outside the tone's band must exceed the margin by this factor, because it is the strongest
# of many bands.
_CLEAR = 3.0


def above_floor(reading: PowerReading, floor: NoiseFloor, drift_db: float) -> float:
    """Return (P − N)/N in multiples of what noise alone can cause; below 1 may be no signal."""
    return (reading.power / floor.power - 1.0) / _margin(reading, floor, drift_db)


def has_line_elsewhere(reading: PowerReading, floor: NoiseFloor, drift_db: float) -> bool:
    """Whether a band other than the tone's has a line that is not part of the noise floor."""
    rise = reading.strongest / floor.strongest - 1.0
    return rise > _CLEAR * _margin(reading, floor, drift_db)  # False if one of them is NaN


def _margin(reading: PowerReading, floor: NoiseFloor, drift_db: float) -> float:
    """Return margin_db relative to the floor."""
    return from_db(floor.margin_db(reading.noise_sigma_db, drift_db)) - 1.0


def measurement_of(
    slot: int, reading: PowerReading, floor: NoiseFloor, drift_db: float
) -> Measurement:
    """Return the power of a slot, and the fault it indicates if it stays at the floor."""
    above, reason, hint = above_floor(reading, floor, drift_db), "", ""
    if above < 1:
        reason, hint = NO_SIGNAL, "is the transmitter on?"
        if has_line_elsewhere(reading, floor, drift_db):
            offset = reading.strongest_hz
            reason, hint = (
                TONE_LOST,
                f"there is a line {offset:.0f} Hz from the tuned frequency, outside the band; if "
                f"it is the tone, set probe.tone_offset_hz to {offset:.0f}, or widen "
                "probe.tone_bandwidth_hz",
            )
    value = Power(reading.power, floor.power, reading.sigma_db, floor.sigma_db)
    return Measurement(slot, value, reason, above, hint)
