"""An estimate with its interval, and the jackknife that gives the interval."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, isfinite, nan, sqrt
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Part = TypeVar("Part")

CONFIDENCE = 0.95
"""The intervals are to contain the true value in this share of the cases."""


@dataclass(frozen=True)
class Estimate:
    """A value, and the ends of its interval."""

    value: float
    low: float = nan
    high: float = nan

    @classmethod
    def around(cls, value: float, error: float, degrees: float) -> Estimate:
        """The interval of Student's t; without degrees of freedom it is unbounded."""
        if degrees < 1 or not isfinite(error):
            return cls(value, -inf, inf)
        from scipy.stats import t  # only here: its import takes 0.5 s

        half = float(t.ppf(0.5 + CONFIDENCE / 2, degrees)) * error
        return cls(value, value - half, value + half)

    def mapped(self, function: Callable[[float], float]) -> Estimate:
        """The estimate of an increasing function of the quantity."""
        return Estimate(function(self.value), function(self.low), function(self.high))

    def of_a_variance(self, level: float) -> Estimate:
        """The interval of a variance, from a symmetric one around its estimate.

        The error of a variance grows in proportion to it, and the estimate of the error with the
        estimate: one that is too low by chance claims too small an error. So the interval has the
        values that this estimate is not far from, each by its own error. `level` is the variance
        at which the error was estimated: this one, and what was measured together with it.
        """
        share = (self.high - self.value) / max(level, self.value)
        below = (self.value - self.low) / (1 + share)
        above = (self.high - self.value) / (1 - share) if share < 1 else inf
        return Estimate(self.value, self.value - below, self.value + above)

    def holds(self, truth: float) -> bool:
        """Whether a value is within the interval."""
        return self.low <= truth <= self.high


def root(square: float) -> float:
    """The square root; 0 below 0, where an estimate of a square may lie."""
    return sqrt(square) if square > 0 else 0.0


def jackknife(
    parts: Sequence[Part], statistic: Callable[[Sequence[Part]], Floats]
) -> list[Estimate]:
    """Estimates of all entries of a statistic: each part is left out once.

    An entry that is not finite without some part, as a lag that is not reached, is unbounded on
    the side of its infinity.
    """
    whole = statistic(parts)
    count = len(parts)
    without = np.array(
        [statistic([*parts[:left], *parts[left + 1 :]]) for left in range(count)]
    ).reshape(count, -1)
    found = []
    for value, others in zip(whole.tolist(), without.T, strict=True):
        error = sqrt((count - 1) / count * float(np.sum((others - others.mean()) ** 2)))
        found.append(Estimate.around(value, error, count - 1))
    return found
