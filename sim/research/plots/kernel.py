"""Plot of fig. kernel: the estimates from one window, and the error over all windows."""

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


def draw(outcome: Outcome) -> Figure:
    figure, (left, right) = panels()
    arrays = {name: np.array(values) for name, values in outcome.arrays.items()}
    left.plot(arrays["position"], arrays["truth"], color="black", linewidth=1.3, label="$g_t$")
    kernels = ("Physics", "Const.+SE", "Nonosc.", "SE")
    for kernel in kernels:
        look = {key: LOOKS[kernel][key] for key in ("color", "linestyle")}
        left.plot(arrays["position"], arrays[kernel], label=kernel, **look)
    left.plot(
        arrays["sample_position"],
        arrays["sample_reward"],
        linestyle="none",
        marker="x",
        markersize=2.6,
        color="#555555",
        label="Samples",
        zorder=2,
    )
    left.set_xlim(arrays["position"][0], arrays["position"][-1])
    left.set_ylabel(f"Reward ({RATE})")
    legend_above(figure, *left.get_legend_handles_labels())
    letter(left, "a", r"Position $x$ ($\lambda$)")
    for at, kernel in enumerate(kernels):
        _, mean, error = outcome.select(panel="b", series=kernel, quantity="rmse")
        right.bar(
            at,
            mean[0],
            0.62,
            yerr=error[0] if np.isfinite(error[0]) else None,
            color=LOOKS[kernel]["color"],
            edgecolor="black",
            linewidth=0.5,
            error_kw={"elinewidth": 0.7},
        )
    names = [
        f"{kernel}\n({outcome.notes[f'{kernel} length']:g}$\\lambda$)"
        if f"{kernel} length" in outcome.notes
        else f"{kernel}\n"
        for kernel in kernels
    ]
    right.set_xticks(range(len(kernels)), names)
    right.tick_params(axis="x", length=0)
    right.grid(visible=False, axis="x")
    right.set_ylabel(rf"RMSE of $\mu_t$ ({RATE})")
    letter(right, "b")
    note_errors(figure, outcome, "b")
    return figure
