"""The `[drift]` table: how the simulated channel changes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from macontrol.config.sections.section import Auto, Fraction, NonNegative, Section


class Drift(Section):
    """How the simulated channel changes from slot to slot (Drift models)."""

    model: Literal["continuous", "piecewise"] = "continuous"
    """continuous: a little in every slot | piecewise: at change points only"""
    angle_correlation: Fraction = 0.9999
    """rho_theta, of the angles from slot to slot"""
    angle_step_deg: NonNegative = 0.1
    """sigma_theta, the random step of an angle per slot"""
    gain_correlation: Fraction = 0.9997
    """rho_alpha, of the gains from slot to slot"""
    shadow_reversion: Fraction = 1e-4
    """open: the rate; the paper says mean-reverting"""
    shadow_step: NonNegative = 0.01
    """sigma_s, the random step of the shadow per slot"""
    change_points: Annotated[int, Field(ge=0)] | Auto = "auto"
    """S per horizon; "auto": the square root of the horizon, rounded up"""
    change_angle_deg: NonNegative = 0.5
    """sigma_theta^cp, the random step of an angle at a change point"""
    change_gain_retention: Fraction = 0.5
    """open: how much of a gain stays; the paper says partially refreshed"""
