"""The likelihood of walks under a kernel of the rail, with drift: a Gaussian process.

The covariance of two samples is σ²·k(x − x')·exp(−|t − t'|/τ), plus the noise on the diagonal: the
map keeps its shape and changes while it is walked. Blocks of walks that are far apart in time count
as independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log, pi

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dtrtrs

from macontrol.controller.policies.kernel import StationaryKernel
from macontrol.controller.survey.calibration.samples import Samples

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

MOST_BLOCKS = 8
_MOST_POSITIONS = 61
FOLDS = 4
_STRETCH = 0.4
"""Held out together: neighbours would give each other away (wavelengths)."""


@dataclass(frozen=True)
class Covariance:
    """What the likelihood depends on."""

    kernel: StationaryKernel
    variance: float
    correlation_s: float
    noise2: float


@dataclass(frozen=True)
class Block:
    """Samples of walks that follow each other: rewards less their mean."""

    reward: Floats
    step: NDArray[np.int_]
    """Between any two samples, the distance in steps of the plan."""
    lag_s: Floats
    """Between any two samples, the time."""
    distances: Floats
    """The distance in wavelengths of 0, 1, 2, … steps."""
    fold: NDArray[np.int_]
    """By the stretch of the rail: which of the folds holds a sample out."""

    @classmethod
    def of(cls, walks: Sequence[Samples], positions: Floats, mean: float) -> Block:
        thin = max(1, -(-len(positions) // _MOST_POSITIONS))
        index = np.concatenate([walk.index[walk.index % thin == 0] for walk in walks])
        reward = np.concatenate([walk.reward[walk.index % thin == 0] for walk in walks])
        time = np.concatenate([walk.time_s[walk.index % thin == 0] for walk in walks])
        gap = float(positions[1] - positions[0])
        return cls(
            reward - mean,
            np.abs(index[:, None] - index[None, :]),
            np.abs(time[:, None] - time[None, :]),
            gap * np.arange(float(len(positions))),
            (index * gap / _STRETCH).astype(int) % FOLDS,
        )

    def __len__(self) -> int:
        return len(self.reward)

    def matrix(self, covariance: Covariance) -> Floats:
        """The covariance of the samples."""
        along = covariance.variance * covariance.kernel(self.distances)
        found: Floats = along[self.step]
        found *= np.exp(self.lag_s * (-1.0 / covariance.correlation_s))
        found[np.diag_indices_from(found)] += covariance.noise2
        return found

    def log_likelihood(self, covariance: Covariance) -> float:
        """log p of the rewards; −inf if the matrix is not positive definite."""
        return _log_density(self.matrix(covariance), self.reward)

    def held_out(self, covariance: Covariance) -> float:
        """The mean over samples of log p of each fold, given the other folds."""
        matrix = self.matrix(covariance)
        whole, total = _log_density(matrix, self.reward), 0.0
        for fold in range(FOLDS):
            kept = self.fold != fold
            if kept.all():
                continue
            rest = matrix[np.ix_(kept, kept)] if kept.any() else np.empty((0, 0))
            total += whole - _log_density(rest, self.reward[kept])
        return total / len(self)

    def residuals(self, covariance: Covariance) -> Floats:
        """Each reward less its prediction from all others, in standard deviations of it."""
        inverse = np.linalg.inv(self.matrix(covariance))
        return np.asarray((inverse @ self.reward) / np.sqrt(np.diagonal(inverse)))


def blocks_of(walks: Sequence[Samples], positions: Floats, mean: float) -> list[Block]:
    """Pairs of walks that follow each other, spread evenly over the calibration."""
    pairs = [
        (first, second)
        for first, second in pairwise(walks)
        if first.cycle[0] == second.cycle[0] and first.direction[0] > 0
    ]
    chosen = np.unique(np.linspace(0, len(pairs) - 1, min(len(pairs), MOST_BLOCKS)).astype(int))
    return [Block.of(pairs[number], positions, mean) for number in chosen.tolist()]


def _log_density(matrix: Floats, values: Floats) -> float:
    """log N(values; 0, matrix)."""
    if not len(values):
        return 0.0
    factor, failed = dpotrf(matrix, lower=1, clean=0)
    if failed:
        return -np.inf
    white, _ = dtrtrs(factor, values, lower=1)
    logs = float(np.log(np.diagonal(factor)).sum())
    return -0.5 * float(white @ white) - logs - 0.5 * len(values) * log(2 * pi)
