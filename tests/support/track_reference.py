"""track-ucb written from docs/track-ucb.md, not from the code: dense, direct and slow.

The estimate is ordinary Gaussian process regression with the kernel k(x, x')·e^(−|t − t'|/τ) over
all rewards so far, without filter and without features. The score is summed slot by slot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, exp

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from support.paper_reference import Covariance

Array = NDArray[np.float64]
Sample = tuple[int, float, float]
"""slot, position, reward less the prior mean"""


@dataclass(frozen=True)
class Estimates:
    """Of each filter, over the points: mean, variance, and its share."""

    mean: Array
    variance: Array
    share: Array

    @property
    def mixed_mean(self) -> Array:
        return np.asarray(sum(p * m for p, m in zip(self.share, self.mean, strict=True)))

    @property
    def mixed_variance(self) -> Array:
        second = zip(self.share, self.variance, self.mean, strict=True)
        return np.asarray(sum(p * (v + m * m) for p, v, m in second)) - self.mixed_mean**2


def regression(
    samples: Sequence[Sample],
    points: Array,
    now: int,
    *,
    covariance: Covariance,
    time_constants: Sequence[float],
    sigma_f2: float,
    noise_variance: float,
    memory: float,
    doubt: float,
) -> Estimates:
    """The estimates in slot `now`."""
    slot, position, reward = (
        np.array(column, dtype=float) for column in zip(*samples, strict=True)
    )
    mean, variance, evidence = [], [], []
    for tau in time_constants:
        gram = sigma_f2 * covariance(position[:, None] - position[None, :])
        gram *= np.exp(-np.abs(slot[:, None] - slot[None, :]) / tau)
        factor = np.linalg.cholesky(gram + noise_variance * np.eye(len(slot)))
        cross = (
            sigma_f2
            * covariance(position[:, None] - points[None, :])
            * np.exp(-(now - slot) / tau)[:, None]
        )
        # The entries of L⁻¹r are the errors of one prediction after the other, in their deviation.
        errors = solve_triangular(factor, reward, lower=True)
        half = solve_triangular(factor, cross, lower=True)
        mean.append(half.T @ errors)
        variance.append(sigma_f2 - np.sum(half**2, axis=0))
        each = -0.5 * errors**2 - np.log(np.diag(factor))
        evidence.append(float(each @ memory ** np.arange(len(each) - 1, -1, -1)))
    return Estimates(np.array(mean), np.array(variance), shares(np.array(evidence), doubt))


def shares(evidence: Array, doubt: float) -> Array:
    """The shares of the filters, from the logarithm of their evidence."""
    share = np.exp(evidence - evidence.max())
    return np.asarray((1 - doubt) * share / share.sum() + doubt / len(share))


def score(
    estimates: Estimates,
    points: Array,
    here: int,
    *,
    time_constants: Sequence[float],
    rho_max: float,
    betas: Sequence[float],
    movement_cost: float,
    horizons: Sequence[int],
) -> Array:
    """F_t at every point, for an antenna at the point `here`."""
    spacing = float(points[1] - points[0])
    value = np.zeros(len(points))
    deviation = np.sqrt(np.maximum(estimates.variance, 0.0))
    for y in range(len(points)):
        distance = abs(y - here) * spacing
        way = max(ceil(distance / rho_max - 1e-9) - 1, 0)
        side = 1 if y > here else -1
        total = 0.0
        for k, tau in enumerate(time_constants):
            mean, share, horizon = estimates.mean[k], estimates.share[k], horizons[k]
            decay = np.exp(-np.arange(1, horizon + 1) / tau)
            for j in range(1, min(way, horizon) + 1):
                total += share * decay[j - 1] * mean[here + side * round(j * rho_max / spacing)]
            stay = mean[y] + betas[k] * deviation[k, y]
            total += share * float(decay[way:].sum()) * stay
        value[y] = (total - movement_cost * distance) / min(horizons)
    return value


class DenseFilter:
    """One Kalman filter of the reward at given points, with their whole covariance matrix."""

    def __init__(self, prior: Array, *, time_constant: float, noise_variance: float) -> None:
        self.prior = prior
        self.decay, self.noise_variance = exp(-1.0 / time_constant), noise_variance
        self.mean, self.covariance = np.zeros(len(prior)), prior.copy()

    def step(self, index: int, reward: float) -> float:
        """A slot with a reward at a point; return the logarithm of its likelihood."""
        self.mean = self.decay * self.mean
        self.covariance = self.decay**2 * self.covariance + (1 - self.decay**2) * self.prior
        column = self.covariance[:, index].copy()
        scale = column[index] + self.noise_variance
        error = reward - self.mean[index]
        self.mean = self.mean + column * (error / scale)
        self.covariance -= np.outer(column, column / scale)
        return float(-0.5 * error**2 / scale - 0.5 * np.log(scale))
