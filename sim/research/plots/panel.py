"""The page of the panel: averages, ratios over the speed, and every cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator
from numpy.typing import NDArray

from macontrol.sim.research.outcome import CHANGED_SETTINGS, Estimate, Outcome
from macontrol.sim.research.panel.cells import VARIATIONS
from macontrol.sim.research.panel.contenders import REFERENCE
from macontrol.sim.research.panel.measure import QUANTITIES
from macontrol.sim.research.panel.report import Tables
from macontrol.sim.research.plots.style import legend_above, letter

WIDTH = 7.2
_ROW = 0.135
_TOP = 2.5
_LEAST, _MOST = 0.4, 2.5
"""The range of the colours; ratios beyond it have the last colour."""
_RATIOS = (0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0)
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F", "#000000")
_MARKERS = "os^Dv<>P"


def draw_panel(outcome: Outcome) -> Figure:
    """(a) regret and travel on average, (b) and (c) regret over V_T/T, (d) and (e) every cell."""
    from matplotlib import pyplot as plt

    tables = Tables(outcome)
    below = _ROW * len(tables.cells) + 0.9
    figure = plt.figure(figsize=(WIDTH, _TOP + below))
    parts: Any = figure.subfigures(2, 1, height_ratios=[_TOP, below])
    upper, lower = parts
    front, paper, ieee = upper.subplots(1, 3)
    looks = _looks(tables)
    _draw_front(front, tables, looks)
    letter(front, "a", f"Travel, {tables.averages[0]}", "Regret")
    for axes, name, group in ((paper, "b", "paper"), (ieee, "c", "ieee")):
        _draw_speeds(axes, tables, group, looks)
        letter(axes, name, f"$V_T/T$, {group}", "Regret")
    handles, labels = front.get_legend_handles_labels()
    legend_above(upper, handles, labels, columns=5)
    both = lower.subplots(1, 2, sharey=True)
    for axes, name, quantity in zip(both, "de", QUANTITIES, strict=True):
        _draw_cells(axes, tables, quantity)
        letter(axes, name, quantity.capitalize())
    text = f"Relative to {REFERENCE} in the same realizations. Error bars: ± one standard error"
    changed = outcome.notes.get(CHANGED_SETTINGS)
    lower.supxlabel(text if changed is None else f"{text}\n{changed}", fontsize=6.5)
    return figure


def _looks(tables: Tables) -> dict[str, dict[str, Any]]:
    """A colour and a marker for each policy; each pair of them once in 56."""
    return {
        policy: {
            "color": _COLOURS[number % len(_COLOURS)],
            "marker": _MARKERS[(number + number // len(_COLOURS)) % len(_MARKERS)],
        }
        for number, policy in enumerate(tables.policies)
    }


def _draw_front(axes: Axes, tables: Tables, looks: dict[str, dict[str, Any]]) -> None:
    for policy, look in looks.items():
        regret, travel = (
            tables.average(tables.averages[0], policy, quantity) for quantity in QUANTITIES
        )
        if regret is not None and travel is not None:
            errors = (_error(travel), _error(regret))
            axes.errorbar(
                travel.mean,
                regret.mean,
                xerr=errors[0],
                yerr=errors[1],
                linestyle="none",
                elinewidth=0.7,
                label=policy,
                **look,
            )
    _mark_reference(axes)
    axes.axvline(1.0, color="#555555", linewidth=0.6)


def _draw_speeds(axes: Axes, tables: Tables, group: str, looks: dict[str, dict[str, Any]]) -> None:
    """The mean over the cells of each speed; piecewise worlds have none."""
    for policy, look in looks.items():
        found = [
            (float(np.mean(at)), float(np.mean(ratios)))
            for aim in VARIATIONS
            if (points := _cells_at(tables, group, policy, aim))
            for at, ratios in [zip(*points, strict=True)]
        ]
        if found:
            at, ratio = zip(*found, strict=True)
            axes.plot(at, ratio, linewidth=0.9, markersize=2.8, **look)
    axes.set_xscale("log")
    _ticks(axes.xaxis, VARIATIONS)
    _mark_reference(axes)


def _cells_at(tables: Tables, group: str, policy: str, aim: float) -> list[tuple[float, float]]:
    """V_T/T and regret ratio of the cells that aim at a speed, by the end of their names."""
    return [
        (tables.variation(own, cell), ratio.mean)
        for own, cell in tables.cells
        if own == group and cell.endswith(f", {aim:g}")
        if (ratio := tables.ratio(own, cell, policy, "regret")) is not None
    ]


def _draw_cells(axes: Axes, tables: Tables, quantity: str) -> None:
    """The ratio of each cell and policy as a colour and a number."""
    policies = [policy for policy in tables.policies if policy != REFERENCE]
    ratios: NDArray[np.float64] = np.full((len(tables.cells), len(policies)), np.nan)
    for row, (group, cell) in enumerate(tables.cells):
        for column, policy in enumerate(policies):
            found = tables.ratio(group, cell, policy, quantity)
            if found is not None:
                ratios[row, column] = found.mean
                text = f"{found.mean:.2f}"
                axes.text(column, row, text, ha="center", va="center", fontsize=4.5)
    shown = np.clip(ratios, _LEAST, _MOST)
    axes.imshow(shown, cmap="RdBu_r", norm=LogNorm(_LEAST, _MOST), aspect="auto", alpha=0.7)
    axes.set_xticks(range(len(policies)), policies, rotation=90)
    axes.set_yticks(range(len(tables.cells)), [cell for _, cell in tables.cells])
    axes.tick_params(length=0, labelsize=5.5)
    axes.grid(visible=False)


def _mark_reference(axes: Axes) -> None:
    axes.set_yscale("log")
    axes.axhline(1.0, color="#555555", linewidth=0.6)
    _ticks(axes.yaxis, _RATIOS)


def _ticks(axis: Axis, at: Sequence[float]) -> None:
    axis.set_major_locator(FixedLocator(at))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda tick, _: f"{tick:g}")


def _error(estimate: Estimate) -> float:
    return float(np.nan_to_num(estimate.standard_error))
