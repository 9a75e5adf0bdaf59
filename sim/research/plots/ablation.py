"""Plot of fig. ablation: the weight, the margin, and the ladder from GP-UCB's rule to MoveUCB."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from macontrol.sim.research.figures.outcome import Outcome
from macontrol.sim.research.plots.style import (
    RATE,
    legend_above,
    legend_over,
    letter,
    line,
    note_errors,
    panels,
)

NAMES = {"regret": "Regret", "travel": r"Travel ($\lambda$)", "switches": r"$N_{\mathrm{sw}}$"}
LOOKS: dict[str, dict[str, Any]] = {
    "regret": {"color": "#0072B2", "marker": "o", "linestyle": "-"},
    "travel": {"color": "#D55E00", "marker": "s", "linestyle": "--"},
    "switches": {"color": "#009E73", "marker": "^", "linestyle": "-."},
}
HATCHES = ("", "/////")
"""Solid at the first movement cost, hatched at the second."""


def draw(outcome: Outcome) -> Figure:
    figure, (weight, margin, regret, switches) = panels(2, 2)
    _sweep(weight, outcome, "a", r"Weight $\eta$")
    _sweep(margin, outcome, "b", r"Margin $\Delta/\sigma_f$")
    _ladder(regret, outcome, "c")
    _ladder(switches, outcome, "d")
    keys = [Line2D([], [], markerfacecolor="white", **LOOKS[name]) for name in NAMES]
    legend_above(figure, keys, list(NAMES.values()))
    note_errors(figure, outcome, "a", "b", "c")
    return figure


def _sweep(axes: Axes, outcome: Outcome, panel: str, label: str) -> None:
    line(axes, outcome, panel, "MoveUCB", "regret", LOOKS["regret"])
    axes.set_ylabel(f"Regret per slot ({RATE})", color=LOOKS["regret"]["color"])
    axes.set_ylim(bottom=0)
    axes.tick_params(which="both", right=False)
    other = axes.twinx()
    for quantity in ("travel", "switches"):
        line(other, outcome, panel, "MoveUCB", quantity, LOOKS[quantity])
    if panel == "a":  # a linear scale suffices
        other.set_ylim(bottom=0)
        axes.set_xticks(range(0, 9, 2))
    else:
        other.set_yscale("log")
    other.set_ylabel(r"Travel ($\lambda$), $N_{\mathrm{sw}}$")
    other.grid(visible=False)
    letter(axes, panel, label)


def _ladder(axes: Axes, outcome: Outcome, panel: str) -> None:
    """(c): regret at both movement costs; (d): travel and switches."""
    if panel == "c":
        _bars(axes, outcome, "regret", offset=0.0, width=0.38)
        axes.set_ylabel(f"Regret per slot ({RATE})")
        legend_over(
            axes,
            handles=[
                Patch(facecolor="white", edgecolor="black", hatch=hatch, linewidth=0.5, label=name)
                for hatch, name in zip(HATCHES, _costs(outcome), strict=True)
            ],
            ncols=2,
        )
    else:
        _bars(axes, outcome, "travel", offset=-0.2, width=0.19)
        _bars(axes, outcome, "switches", offset=0.2, width=0.19)
        axes.set_yscale("log")
        axes.set_ylabel(r"Travel ($\lambda$), $N_{\mathrm{sw}}$")
    axes.tick_params(axis="x", length=0)
    axes.grid(visible=False, axis="x")
    letter(axes, panel)


def _costs(outcome: Outcome) -> list[str]:
    return [name.replace("c_e", r"$c_{\mathrm{e}}$") for name in outcome.series("c")]


def _bars(axes: Axes, outcome: Outcome, quantity: str, *, offset: float, width: float) -> None:
    rungs, _, _ = outcome.select(panel="c", series=outcome.series("c")[0], quantity="regret")
    for number, (series, hatch) in enumerate(zip(outcome.series("c"), HATCHES, strict=True)):
        at, mean, error = outcome.select(panel="c", series=series, quantity=quantity)
        axes.bar(
            np.array([rungs.index(rung) for rung in at]) + offset + (number - 0.5) * width,
            mean,
            width * 0.94,
            yerr=np.nan_to_num(error),
            color=LOOKS[quantity]["color"],
            edgecolor="black",
            hatch=hatch,
            linewidth=0.5,
            error_kw={"elinewidth": 0.7},
        )
    axes.set_xticks(range(len(rungs)), [str(rung) for rung in rungs])
