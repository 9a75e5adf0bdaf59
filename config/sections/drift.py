"""The `[drift]` table: how the simulated channel changes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from macontrol.config.sections.section import Auto, Fraction, NonNegative, Section


class Drift(Section):
    """How the simulated channel changes from slot to slot (Drift models)."""

    model: Literal["continuous", "piecewise"]
    angle_correlation: Fraction
    angle_step_deg: NonNegative
    gain_correlation: Fraction
    shadow_reversion: Fraction
    shadow_step: NonNegative
    change_points: Annotated[int, Field(ge=0)] | Auto
    change_angle_deg: NonNegative
    change_gain_retention: Fraction
