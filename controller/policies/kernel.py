"""The kernels: the similarity of the rewards at two positions, as a function of their lag.

All four kernels of the paper are a constant plus damped cosines (a squared exponential is a cosine
with an infinite period), so one class represents them. They are normalised to k(x, x) = 1. The
posterior, which knows the output scale sigma_f^2, multiplies by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, inf, radians
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from macontrol.config.sections.kernel import Kernel

Array = NDArray[np.float64]

# The damping rule's anchor in the paper: at a spread of 2 degrees, fringes last 2 wavelengths.
_REFERENCE_SPREAD_DEG = 2.0
_REFERENCE_DAMPING = 2.0
# Angles that represent the sector: enough for eight digits of a period, in a few milliseconds.
_ANGLES = 20_000


class DampedCosine(NamedTuple):
    """weight · cos(2π·lag/period) · exp(−lag²/(2·length²)); an infinite period is a plain SE."""

    weight: float
    period: float
    length: float


@dataclass(frozen=True)
class StationaryKernel:
    """A constant plus damped cosines, with k(x, x) = 1 (eq. kernel divided by sigma_f^2)."""

    constant: float
    terms: tuple[DampedCosine, ...]

    def __call__(self, lag: Array) -> Array:
        """The covariance at a lag (in wavelengths), in units of sigma_f^2."""
        value = np.full(np.shape(lag), self.constant)
        for weight, period, length in self.terms:
            term = weight * np.exp(-0.5 * np.square(lag / length))
            value += term if period == inf else term * np.cos(2 * np.pi * lag / period)
        return value


def kernel_from_config(kernel: Kernel) -> StationaryKernel:
    """The kernel of a config: the paper's, or one of its three comparison kernels."""
    if kernel.name == "se":
        return StationaryKernel(0.0, (DampedCosine(1.0, inf, kernel.se_length),))
    if kernel.name == "const-se":
        smooth = DampedCosine(1.0 - kernel.constant_weight, inf, kernel.se_length)
        return StationaryKernel(kernel.constant_weight, (smooth,))
    fringe_weight = 1.0 - kernel.constant_weight - kernel.residual_weight
    damping = (
        fringe_damping(kernel.angular_spread_deg)
        if kernel.fringe_damping == "auto"
        else kernel.fringe_damping
    )
    periods = (
        fringe_periods(kernel.sector_deg, kernel.components)
        if kernel.fringe_periods == "auto"
        else kernel.fringe_periods
    )
    fringes = (
        DampedCosine(fringe_weight / len(periods), period, damping)
        if kernel.name == "physics"
        else DampedCosine(fringe_weight / len(periods), inf, damping)
        for period in periods
    )
    residual = DampedCosine(kernel.residual_weight, inf, kernel.residual_length)
    return StationaryKernel(kernel.constant_weight, (residual, *fringes))


def fringe_damping(angular_spread_deg: float) -> float:
    """ς_q in wavelengths: inversely proportional to the angular spread of a cluster."""
    return _REFERENCE_DAMPING * _REFERENCE_SPREAD_DEG / angular_spread_deg


def fringe_periods(sector_deg: tuple[float, float], components: int) -> tuple[float, ...]:
    """λ_q = λ/δ_q, δ_q the q/(Q+1) quantiles of |cos θ − cos θ'| for two angles of the sector."""
    from scipy.optimize import brentq  # only here: its import takes 0.2 s

    low, high = radians(sector_deg[0]), radians(sector_deg[1])
    widest = cos(low) - cos(high)
    # The midpoint rule: the integrand has kinks, so rules of a higher order are not better.
    cosines = np.cos(low + (high - low) * (np.arange(_ANGLES) + 0.5) / _ANGLES)

    def share_within(delta: float) -> float:
        """P(|cos θ − cos θ'| ≤ δ) for θ, θ' uniform on the sector."""
        first = np.arccos(np.clip(cosines + delta, -1, 1))
        last = np.arccos(np.clip(cosines - delta, -1, 1))
        inside = np.minimum(last, high) - np.maximum(first, low)
        return float(inside.mean()) / (high - low)

    def quantile(level: float) -> float:
        return float(brentq(lambda delta: share_within(delta) - level, 0.0, widest))

    return tuple(1.0 / quantile(q / (components + 1)) for q in range(1, components + 1))
