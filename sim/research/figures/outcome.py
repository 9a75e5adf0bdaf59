"""The outcome of a figure: rows of numbers, the quantities that have bars, and notes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from macontrol.sim.research.statistics import Estimate

Array = NDArray[np.float64]

CHANGED_SETTINGS = "changed settings"
"""The key of the note on settings that differ from Table 1; figures show the note."""


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
        self, *, panel: str, series: str, quantity: str, scenario: str | None = None
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
