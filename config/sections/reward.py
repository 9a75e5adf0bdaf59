"""The `[reward]` table: the rate reward, its noise and the energy price of travel."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from macontrol.config.model import units
from macontrol.config.sections.section import Fraction, NonNegative, Section


class Reward(Section):
    """The rate reward, its noise and the energy price of travel (eqs. reward, observation)."""

    snr_db: Annotated[float, Field(ge=-60, le=120)] = 10.0
    """the SNR where the channel has unit power"""
    movement_cost: NonNegative = 0.3
    """c_e, the price of travel per wavelength"""
    noise_level: Fraction = 0.05
    """sigma_eps, the noise of a reward as a fraction of g_max"""
    offset: Literal["none", "survey"] = "none"
    """what the posterior takes an unknown place for: "none": a reward of 0, as in the paper |
    "survey": the mean of the survey's rewards, so that a place that left the window is average"""

    @property
    def snr(self) -> float:
        return units.from_db(self.snr_db)
