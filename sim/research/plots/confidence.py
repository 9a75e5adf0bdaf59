"""Plot of fig. beta: regret, travel and transit over the confidence parameter."""

from __future__ import annotations

from matplotlib.figure import Figure

from macontrol.sim.research.figures.outcome import Outcome
from macontrol.sim.research.plots.style import (
    LOOKS,
    RATE,
    legend_above,
    letter,
    line,
    note_errors,
    panels,
)


def draw(outcome: Outcome) -> Figure:
    figure, (left, right) = panels()
    for policy in ("MoveUCB", "GP-UCB"):
        line(left, outcome, "a", policy, "regret")
        line(right, outcome, "a", policy, "travel")
        best = float(outcome.notes[f"{policy} best beta"])
        x, mean, _ = outcome.select(panel="a", series=policy, quantity="regret")
        lowest = mean[x.index(best)]
        colour = LOOKS[policy]["color"]
        left.plot(best, lowest, marker="*", markersize=7, color=colour, zorder=5)
    left.set_ylim(bottom=0)
    left.set_ylabel(f"Regret per slot ({RATE})")
    letter(left, "a", r"Confidence parameter $\beta$")
    right.set_yscale("log")
    right.set_ylabel(r"Total travel ($\lambda$)")
    letter(right, "b", r"Confidence parameter $\beta$")
    share = right.twinx()
    look = {"label": "MoveUCB, in transit", "color": "#56B4E9", "marker": "x", "linestyle": ":"}
    line(share, outcome, "a", "MoveUCB", "transit_share", look, scale=100.0)
    share.set_ylim(0, 100)
    share.set_ylabel("Slots in transit (%)")
    share.grid(visible=False)
    right.tick_params(which="both", right=False)
    handles, labels = left.get_legend_handles_labels()
    more, names = share.get_legend_handles_labels()
    legend_above(figure, handles + more, labels + names)
    note_errors(figure, outcome, "a")
    return figure
