"""The `[reward]` table: the rate reward, its noise and the energy price of travel."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from macontrol.config.model import units
from macontrol.config.sections.section import Fraction, NonNegative, Section


class Reward(Section):
    """The rate reward, its noise and the energy price of travel (eqs. reward, observation)."""

    snr_db: Annotated[float, Field(ge=-60, le=120)]
    movement_cost: NonNegative
    noise_level: Fraction

    @property
    def snr(self) -> float:
        return units.from_db(self.snr_db)
