"""The `[kernel]` table: the prior covariance of the reward over the rail."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from macontrol.config.sections.section import Auto, Fraction, Positive, Section, Sector

KernelName: TypeAlias = Literal["physics", "se", "const-se", "nonoscillatory"]


class Kernel(Section):
    """The prior covariance of the reward over the rail (eq. kernel and the comparison kernels)."""

    name: KernelName = "physics"
    """physics | se | const-se | nonoscillatory"""
    components: Annotated[int, Field(ge=0, le=32)] = 3
    """Q, the number of fringe components"""
    fringe_periods: Annotated[tuple[Positive, ...], Field(strict=False)] | Auto = (4.15, 1.81, 1.04)
    """lambda_q, one per component; "auto": by the quantile rule over the sector"""
    fringe_damping: Positive | Auto = 2.0
    """varsigma_q; "auto": 2 wavelengths x (2 deg / angular spread)"""
    residual_length: Positive = 4.0
    """varsigma_0, the length scale of the residual"""
    se_length: Positive = 0.5
    """open: of the se and const-se comparison kernels; `reproduce kernel` selects it on validation
    realizations, as the paper does"""
    sector_deg: Sector = (30.0, 150.0)
    """of "auto" fringe periods; of no effect while they are given"""
    angular_spread_deg: Positive = 2.0
    """of "auto" fringe damping; of no effect while it is given"""
    constant_weight: Fraction = 0.25
    """sigma_c^2 / sigma_f^2, the share of the constant part"""
    residual_weight: Fraction = 0.25
    """sigma_0^2 / sigma_f^2, the share of the residual; the fringes share what is left"""
