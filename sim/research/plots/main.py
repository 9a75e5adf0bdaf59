"""Plot of fig. main: regret and travel of each policy in both scenarios, and regret over time."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from macontrol.sim.research.figures.outcome import Outcome
from macontrol.sim.research.plots.style import (
    LOOKS,
    RATE,
    legend_above,
    letter,
    note_errors,
    panels,
)

SCENARIOS = {"dense": "Dense multipath", "blocked": "Partially blocked"}


def draw(outcome: Outcome) -> Figure:
    figure, (left, right) = panels()
    policies = outcome.series("a")
    width = 0.8 / len(policies)
    for axes, quantity in ((left, "regret"), (right, "travel")):
        for number, policy in enumerate(policies):
            for at, scenario in enumerate(SCENARIOS):
                _, mean, error = outcome.select(
                    panel="a", series=policy, quantity=quantity, scenario=scenario
                )
                place = at + (number - (len(policies) - 1) / 2) * width
                if mean[0] == 0:  # a fixed antenna does not travel
                    axes.text(place, 0, "0", ha="center", va="bottom", color=LOOKS[policy]["color"])
                    continue
                axes.bar(
                    place,
                    mean[0],
                    width * 0.92,
                    yerr=error[0] if np.isfinite(error[0]) else None,
                    color=LOOKS[policy]["color"],
                    edgecolor="black",
                    linewidth=0.5,
                    error_kw={"elinewidth": 0.7},
                    label=policy if at == 0 else None,
                )
        axes.set_xticks(range(len(SCENARIOS)), list(SCENARIOS.values()))
        axes.set_xlim(-0.5, len(SCENARIOS) - 0.5)
        axes.tick_params(axis="x", length=0)
        axes.grid(visible=False, axis="x")
    left.set_ylabel(f"Regret per slot ({RATE})")
    right.set_ylabel(r"Total travel ($\lambda$)")
    legend_above(figure, *left.get_legend_handles_labels())
    letter(left, "a")
    letter(right, "b")
    note_errors(figure, outcome, "a")
    return figure


def draw_time(outcome: Outcome) -> Figure:
    figure, both = panels()
    for axes, (scenario, name), panel in zip(both, SCENARIOS.items(), "ab", strict=True):
        for policy in outcome.series("time"):
            x, mean, error = outcome.select(
                panel="time", series=policy, quantity="cumulative_regret", scenario=scenario
            )
            slots = np.array(x, dtype=float)
            look = {key: LOOKS[policy][key] for key in ("color", "linestyle")}
            axes.plot(slots / 1e3, mean / 1e3, label=policy, **look)
            axes.fill_between(
                slots / 1e3,
                (mean - error) / 1e3,
                (mean + error) / 1e3,
                color=look["color"],
                alpha=0.18,
                linewidth=0,
            )
        axes.margins(x=0)
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.set_title(name, pad=3)
        letter(axes, panel, r"Slot $t$ ($\times 10^3$)")
    both[0].set_ylabel(rf"Cumulative regret ($\times 10^3$ {RATE})")
    legend_above(figure, *both[0].get_legend_handles_labels())
    note_errors(figure, outcome, "time", what="Bands")
    return figure
