"""The `[kernel]` table: the prior covariance of the reward over the rail."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from macontrol.config.sections.section import Auto, Fraction, Positive, Section, Sector

KernelName: TypeAlias = Literal["physics", "se", "const-se", "nonoscillatory"]


class Kernel(Section):
    """The prior covariance of the reward over the rail (eq. kernel and the comparison kernels)."""

    name: KernelName
    components: Annotated[int, Field(ge=0, le=32)]
    fringe_periods: Annotated[tuple[Positive, ...], Field(strict=False)] | Auto
    fringe_damping: Positive | Auto
    residual_length: Positive
    se_length: Positive
    sector_deg: Sector
    angular_spread_deg: Positive
    constant_weight: Fraction
    residual_weight: Fraction
