"""The outcome of a figure: numbers with standard errors, quantities that have bars, and notes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import nan, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

CHANGED_SETTINGS = "changed settings"
"""The key of the note on settings that differ from Table 1; figures show the note."""


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


def closest_lead(leads: Mapping[str, Array]) -> tuple[Estimate, str]:
    """The least of the leads over several rivals, and the rival; a lead per realization each."""
    estimates = {rival: estimate(lead) for rival, lead in leads.items()}
    closest = min(estimates, key=lambda rival: estimates[rival].mean)
    return estimates[closest], closest


class Row(NamedTuple):
    """One number of a figure. The panel varies `parameter`, which has `value` here."""

    panel: str
    scenario: str
    series: str
    parameter: str
    value: float | str
    quantity: str
    estimate: Estimate


@dataclass
class Outcome:
    """The numbers of a figure. Plots and tables use nothing else."""

    rows: list[Row] = field(default_factory=list)
    quantities: dict[str, Estimate] = field(default_factory=dict)
    notes: dict[str, str | float] = field(default_factory=dict)
    arrays: dict[str, list[float]] = field(default_factory=dict)

    def select(
        self, panel: str, series: str, quantity: str, scenario: str | None = None
    ) -> tuple[list[float | str], Array, Array]:
        """One line of a panel: the values of the parameter, the means, the standard errors."""
        rows = [
            row
            for row in self.rows
            if (row.panel, row.series, row.quantity) == (panel, series, quantity)
            and scenario in (None, row.scenario)
        ]
        return (
            [row.value for row in rows],
            np.array([row.estimate.mean for row in rows]),
            np.array([row.estimate.standard_error for row in rows]),
        )

    def series(self, panel: str) -> list[str]:
        """The series of a panel, in their order."""
        return list(dict.fromkeys(row.series for row in self.rows if row.panel == panel))

    def add(self, rows: Iterable[Row]) -> None:
        self.rows.extend(rows)
