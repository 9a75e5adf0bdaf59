"""The noise floor: the power with the transmitter off, and what a reading is worth above it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot, nan, sqrt

from macontrol.config.model.units import from_db, to_db
from macontrol.hal.probe import NO_SIGNAL, TONE_LOST, Measurement
from macontrol.hal.probes.sdr.power import DB_PER_NEPER, PowerReading, rate_reward

# A reading is above the floor if it exceeds it by this many standard deviations.
_SIGMAS = 5.0
# A line elsewhere in the spectrum must be this many times clearer, as it is the best of many bands.
_CLEAR = 3.0
# The gain is fixed and thermal noise is steady: a floor that rises further in mid-run holds more
# than noise, most likely the transmitter.
_LARGEST_RISE_DB = 1.0


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """The power with the transmitter off."""

    power: float
    sigma_db: float
    measured_at_s: float
    """When, on the clock; NaN if it was given and not measured."""
    strongest: float = nan
    """Of a tone: the power in the strongest band with the transmitter off; NaN if unknown."""

    @property
    def dbfs(self) -> float:
        return to_db(self.power)

    def doubt_db(self, noise_sigma_db: float, drift_db: float) -> float:
        """How far above the floor noise alone may read: 5σ, with the drift of the gain in σ."""
        return _SIGMAS * hypot(self.sigma_db, noise_sigma_db, drift_db)


def given_floor(dbfs: float) -> NoiseFloor:
    """A floor that is known, and not measured here."""
    return NoiseFloor(from_db(dbfs), 0.0, nan)


def mean_floor(readings: Sequence[PowerReading], measured_at_s: float) -> NoiseFloor:
    """The floor from readings of equal length; its σ includes how much they differ."""
    pieces, samples = len(readings), sum(r.samples for r in readings)
    power = sum(r.power * r.samples for r in readings) / samples
    strongest = sum(r.strongest * r.samples for r in readings) / samples
    sigma = sqrt(sum(r.sigma_db**2 for r in readings)) / pieces
    if pieces > 1 and power > 0:
        spread = sum((r.power / power - 1.0) ** 2 for r in readings) / (pieces - 1)
        sigma = max(sigma, DB_PER_NEPER * sqrt(spread / pieces))
    return NoiseFloor(power, sigma, measured_at_s, strongest)


def above_floor(reading: PowerReading, floor: NoiseFloor, drift_db: float) -> float:
    """(P − N)/N in multiples of what noise alone may show; below 1 there may be no signal."""
    return (reading.power / floor.power - 1.0) / _doubt(reading, floor, drift_db)


def is_elsewhere(reading: PowerReading, floor: NoiseFloor, drift_db: float) -> bool:
    """Whether a line stands in another band than the tone's that the noise floor did not have."""
    rise = reading.strongest / floor.strongest - 1.0
    return rise > _CLEAR * _doubt(reading, floor, drift_db)  # not so if one of them is unknown


def _doubt(reading: PowerReading, floor: NoiseFloor, drift_db: float) -> float:
    """doubt_db as a share of the floor."""
    return from_db(floor.doubt_db(reading.noise_sigma_db, drift_db)) - 1.0


def implausible_rise(found: NoiseFloor, previous: NoiseFloor, drift_db: float) -> str | None:
    """Why a floor measured in mid-run cannot be one; None if it can."""
    rise, most = found.dbfs - previous.dbfs, max(_LARGEST_RISE_DB, found.doubt_db(0.0, drift_db))
    if rise <= most:
        return None
    return (
        f"{found.dbfs:.1f} dBFS is {rise:.1f} dB above the noise floor in use, and more than "
        f"{most:.1f} dB is not noise: was the transmitter on? Switch it off and ask again; if the "
        "noise has really risen, start the run again"
    )


def measurement_of(
    slot: int, reading: PowerReading, floor: NoiseFloor, share: float, drift_db: float
) -> Measurement:
    """A slot's reward from its power, and what it means if the power stays at the noise floor."""
    reward, sigma = rate_reward(share, reading.power, floor.power, reading.sigma_db, floor.sigma_db)
    above, reason, hint = above_floor(reading, floor, drift_db), "", ""
    if above < 1:
        reason, hint = NO_SIGNAL, "is the transmitter on?"
        if is_elsewhere(reading, floor, drift_db):
            offset = reading.strongest_hz
            reason, hint = (
                TONE_LOST,
                f"a line stands {offset:.0f} Hz from the tuner, outside the band; if it is the "
                f"tone, set probe.tone_offset_hz to {offset:.0f}, or widen "
                "probe.tone_bandwidth_hz",
            )
    return Measurement(slot, reward, True, sigma, reason, above, hint)
