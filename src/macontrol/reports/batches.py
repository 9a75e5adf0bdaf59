"""Means of a run with standard errors that respect autocorrelation, by batch means.

The rewards of neighbouring slots are correlated, so the deviation of single slots divided by √n is
far too small an error. The means of a few long batches of slots are nearly independent, and their
scatter is that of the mean.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

BATCHES = 20
_FEWEST = 10 * BATCHES
_CORRELATED = 0.5

METHOD = (
    f"Standard errors are those of batch means: the slots are divided into {BATCHES} batches in "
    "the order of time, and the standard deviation of the batches' means is divided by "
    f"√{BATCHES}. Slots within one batch may be correlated."
)


@dataclass(frozen=True)
class Mean:
    """The mean of a series and its standard error."""

    value: float
    error: float | None
    """None if the series is too short for batches."""
    count: int
    correlated: bool = False
    """Whether neighbouring batches are correlated: the error is then too small."""

    @property
    def is_level(self) -> bool | None:
        """Whether the mean is within two standard errors of 0; None without an error."""
        return None if self.error is None else abs(self.value) <= 2.0 * self.error


def batch_mean(series: Floats) -> Mean:
    """The mean over a series in the order of time, with the error of its batch means."""
    count = len(series)
    value = float(series.mean()) if count else float("nan")
    if count < _FEWEST:
        return Mean(value, None, count)
    means = np.array([batch.mean() for batch in np.array_split(series, BATCHES)])
    off = means - means.mean()
    power = float(off @ off)
    error = float(np.sqrt(power / (BATCHES - 1) / BATCHES))
    correlation = float(off[1:] @ off[:-1]) / power if power > 0 else 0.0
    return Mean(value, error, count, correlation > _CORRELATED)
