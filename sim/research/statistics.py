"""Means over realizations and their standard errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import nan, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Estimate(NamedTuple):
    """A mean over realizations and its standard error (NaN for a single realization)."""

    mean: float
    standard_error: float
    realizations: int


def estimate(values: Sequence[float] | Array) -> Estimate:
    """The mean over realizations."""
    array = np.asarray(values, dtype=np.float64)
    count = len(array)
    error = float(array.std(ddof=1)) / sqrt(count) if count > 1 else nan
    return Estimate(float(array.mean()), error, count)


def of_means(function: Callable[..., float], *columns: Sequence[float] | Array) -> Estimate:
    """A function of means, for example a ratio; its standard error by the jackknife.

    A column has one row per realization. For the mean itself this is the usual standard error.
    """
    arrays = [np.asarray(column, dtype=np.float64) for column in columns]
    count = len(arrays[0])
    value = function(*(array.mean(axis=0) for array in arrays))
    if count < 2:
        return Estimate(float(value), nan, count)
    totals = [array.sum(axis=0) for array in arrays]
    left_out = np.array(
        [
            function(
                *((total - a[i]) / (count - 1) for total, a in zip(totals, arrays, strict=True))
            )
            for i in range(count)
        ]
    )
    variance = (count - 1) / count * float(((left_out - left_out.mean()) ** 2).sum())
    return Estimate(float(value), sqrt(variance), count)


def exponent(horizons: Sequence[int], budgets: Array) -> float:
    """The slope of log V_T on log T: the growth exponent of fig. vt(a)."""
    return float(np.polyfit(np.log(horizons), np.log(budgets), 1)[0])
