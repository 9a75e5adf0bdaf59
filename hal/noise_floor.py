"""The noise floor of a probe: the power that it measures while the transmitter is off."""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot, nan

from macontrol.config.model.units import from_db, to_db

# A reading is above the floor if it exceeds it by this many standard deviations.
_SIGMAS = 5.0
# The gain is fixed and thermal noise is steady. A floor that rises by more than this during a run
# contains more than noise, most likely the transmitter.
_LARGEST_RISE_DB = 1.0


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """The power with the transmitter off, on the probe's own scale."""

    power: float
    """1 is the full scale of a radio, or 1 mW."""
    sigma_db: float
    measured_at_s: float
    """Time on the clock; NaN if the floor was configured, not measured."""
    strongest: float = nan
    """The power in the strongest band of equal width; NaN if the probe measures only one band."""

    unit: str = "dBFS"
    """The unit of the level; in dBm, a power of 1 is 1 mW."""

    def __str__(self) -> str:
        return f"{self.dbfs:.1f} {self.unit}"

    @property
    def dbfs(self) -> float:
        """The level in the probe's own unit: for a radio, dB relative to full scale."""
        return to_db(self.power)

    def margin_db(self, noise_sigma_db: float, drift_db: float) -> float:
        """How far above the floor a reading of pure noise can be: 5σ, gain drift included in σ."""
        return _SIGMAS * hypot(self.sigma_db, noise_sigma_db, drift_db)


def known_floor(dbfs: float, unit: str = "dBFS") -> NoiseFloor:
    """Return a floor that is known from a config or an earlier run."""
    return NoiseFloor(from_db(dbfs), 0.0, nan, unit=unit)


def implausible_rise(found: NoiseFloor, previous: NoiseFloor, drift_db: float) -> str | None:
    """Explain why a floor measured during a run is not a noise floor; None if it can be one."""
    rise, limit = found.dbfs - previous.dbfs, max(_LARGEST_RISE_DB, found.margin_db(0.0, drift_db))
    if rise <= limit:
        return None
    return (
        f"{found} is {rise:.1f} dB above the noise floor in use, and noise does not "
        f"rise by more than {limit:.1f} dB"
    )
