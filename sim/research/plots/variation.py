"""Plot of fig. vt: the variation budget over the horizon, and the regret over change points."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter

from macontrol.sim.research.figures.outcome import Outcome
from macontrol.sim.research.plots.style import (
    LOOKS,
    RATE,
    legend_over,
    letter,
    line,
    note_errors,
    panels,
)

NAMES = {"continuous": "Continuous", "piecewise": r"Piecewise, $S=\lceil T^{1/2}\rceil$"}


def draw(outcome: Outcome) -> Figure:
    figure, (left, right) = panels()
    x, _, _ = outcome.select(panel="a", series="continuous", quantity="variation_budget")
    horizons = np.array(x, dtype=float)
    for series, name in NAMES.items():
        slope = outcome.quantities[f"{series} exponent"].mean
        label = rf"{name}: $T^{{{slope:.2f}}}$"
        line(left, outcome, "a", series, "variation_budget", {"linestyle": "none", "label": label})
        _, mean, _ = outcome.select(panel="a", series=series, quantity="variation_budget")
        offset = np.mean(np.log(mean) - slope * np.log(horizons))
        look = LOOKS[series]
        fitted = np.exp(offset) * horizons**slope
        left.plot(horizons, fitted, color=look["color"], linestyle=look["linestyle"], zorder=2)
    left.set_xscale("log")
    left.set_yscale("log")
    ends = horizons[::4]
    left.xaxis.set_major_locator(FixedLocator(ends.tolist()))
    left.xaxis.set_minor_locator(NullLocator())
    left.xaxis.set_major_formatter(ScalarFormatter())
    left.set_ylabel(r"Variation budget $V_T$")
    legend_over(left)
    letter(left, "a", "Horizon $T$ (slots)")
    for policy in ("MoveUCB", "GP-UCB", "Sweep-and-hold"):
        line(right, outcome, "b", policy, "regret")
    counts, _, _ = outcome.select(panel="b", series="MoveUCB", quantity="regret")
    right.set_xscale("log")
    right.xaxis.set_major_locator(FixedLocator([float(count) for count in counts]))
    right.xaxis.set_minor_locator(NullLocator())
    right.xaxis.set_major_formatter(ScalarFormatter())
    right.set_ylim(bottom=0)
    right.set_ylabel(f"Regret per slot ({RATE})")
    legend_over(right, ncols=2)
    letter(right, "b", "Change points $S$")
    note_errors(figure, outcome, "a", "b")
    return figure
