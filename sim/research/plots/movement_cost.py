"""Plot of fig. ce: regret and travel over the movement cost coefficient."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from macontrol.sim.research.figures.outcome import Outcome
from macontrol.sim.research.plots.style import (
    RATE,
    legend_above,
    letter,
    line,
    note_errors,
    panels,
)

MOVERS = ("MoveUCB", "GP-UCB", "Sweep-and-hold", "ε-greedy")


def draw(outcome: Outcome) -> Figure:
    figure, (left, right) = panels()
    for policy in (*MOVERS, "Fixed"):
        line(left, outcome, "a", policy, "regret")
        if policy in MOVERS:
            line(right, outcome, "a", policy, "travel")
    ticks, _, _ = outcome.select(panel="a", series="MoveUCB", quantity="regret")
    for axes, name in ((left, "a"), (right, "b")):
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(FixedLocator([float(tick) for tick in ticks]))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(lambda tick, _: f"{tick:g}")
        axes.set_ylim(bottom=0)
        letter(axes, name, r"Movement cost coefficient $c_{\mathrm{e}}$ (per $\lambda$)")
    left.set_ylabel(f"Regret per slot ({RATE})")
    right.set_ylabel(r"Total travel ($\lambda$)")
    legend_above(figure, *left.get_legend_handles_labels())
    note_errors(figure, outcome, "a")
    return figure
