"""The plots of the figures of the paper, as PNG and SVG, from the numbers of an outcome."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, NullLocator

from macontrol.sim.research.outcome import Outcome
from macontrol.sim.research.plots.panel import draw_panel
from macontrol.sim.research.plots.style import (
    LOOKS,
    RATE,
    legend_above,
    legend_over,
    letter,
    line,
    note_errors,
    panels,
    paper_style,
    save_figure,
)

REGRET = f"Regret per slot ({RATE})"
TRAVEL = r"Total travel ($\lambda$)"
SCENARIOS = {"dense": "Dense multipath", "blocked": "Partially blocked"}
MOVERS = ("MoveUCB", "GP-UCB", "Sweep-and-hold", "ε-greedy")
DRIFTS = {"continuous": "Continuous", "piecewise": r"Piecewise, $S=\lceil T^{1/2}\rceil$"}
KERNELS = ("Physics", "Const.+SE", "Nonosc.", "SE")
QUANTITIES = {"regret": "Regret", "travel": r"Travel ($\lambda$)", "switches": r"$N_{\mathrm{sw}}$"}
TRAVEL_AND_SWITCHES = f"{QUANTITIES['travel']}, {QUANTITIES['switches']}"
HATCHES = ("", "/////")
"""Solid at the first movement cost of the ladder, hatched at the second."""
_BAR: dict[str, Any] = {"edgecolor": "black", "linewidth": 0.5, "error_kw": {"elinewidth": 0.7}}


def draw_main(outcome: Outcome) -> Figure:
    figure, (left, right) = panels()
    policies = outcome.series("a")
    width = 0.8 / len(policies)
    for axes, quantity in ((left, "regret"), (right, "travel")):
        for number, policy in enumerate(policies):
            for at, scenario in enumerate(SCENARIOS):
                _, mean, error = outcome.select("a", policy, quantity, scenario)
                place = at + (number - (len(policies) - 1) / 2) * width
                if mean[0] == 0:  # a fixed antenna does not travel
                    axes.text(place, 0, "0", ha="center", va="bottom", color=LOOKS[policy]["color"])
                    continue
                label = policy if at == 0 else None
                _bar(axes, place, mean[0], error[0], width * 0.92, policy, label=label)
        axes.set_xticks(range(len(SCENARIOS)), list(SCENARIOS.values()))
        axes.set_xlim(-0.5, len(SCENARIOS) - 0.5)
        _plain_x(axes)
    legend_above(figure, *left.get_legend_handles_labels())
    letter(left, "a", y=REGRET)
    letter(right, "b", y=TRAVEL)
    note_errors(figure, outcome, "a")
    return figure


def draw_main_over_time(outcome: Outcome) -> Figure:
    figure, both = panels()
    for axes, (scenario, name), panel in zip(both, SCENARIOS.items(), "ab", strict=True):
        for policy in outcome.series("time"):
            x, mean, error = outcome.select("time", policy, "cumulative_regret", scenario)
            slots = np.array(x, dtype=float) / 1e3
            axes.plot(slots, mean / 1e3, label=policy, **_line_look(policy))
            band = ((mean - error) / 1e3, (mean + error) / 1e3)
            axes.fill_between(slots, *band, color=LOOKS[policy]["color"], alpha=0.18, linewidth=0)
        axes.margins(x=0)
        axes.set_xlim(left=0)
        axes.set_title(name, pad=3)
        letter(axes, panel, r"Slot $t$ ($\times 10^3$)", from_zero=True)
    both[0].set_ylabel(rf"Cumulative regret ($\times 10^3$ {RATE})")
    legend_above(figure, *both[0].get_legend_handles_labels())
    note_errors(figure, outcome, "time", what="Bands")
    return figure


def draw_movement_cost(outcome: Outcome) -> Figure:
    figure, (left, right) = panels()
    for policy in (*MOVERS, "Fixed"):
        line(left, outcome, "a", policy, "regret")
        if policy in MOVERS:
            line(right, outcome, "a", policy, "travel")
    ticks, _, _ = outcome.select("a", "MoveUCB", "regret")
    label = r"Movement cost coefficient $c_{\mathrm{e}}$ (per $\lambda$)"
    for axes, name, quantity in ((left, "a", REGRET), (right, "b", TRAVEL)):
        _log_x(axes, ticks)
        letter(axes, name, label, quantity, from_zero=True)
    legend_above(figure, *left.get_legend_handles_labels())
    note_errors(figure, outcome, "a")
    return figure


def draw_variation(outcome: Outcome) -> Figure:
    figure, (left, right) = panels()
    x, _, _ = outcome.select("a", "continuous", "variation_budget")
    horizons = np.array(x, dtype=float)
    for series, name in DRIFTS.items():
        slope = outcome.quantities[f"{series} exponent"].mean
        label = rf"{name}: $T^{{{slope:.2f}}}$"
        line(left, outcome, "a", series, "variation_budget", {"linestyle": "none", "label": label})
        _, mean, _ = outcome.select("a", series, "variation_budget")
        offset = np.mean(np.log(mean) - slope * np.log(horizons))
        left.plot(horizons, np.exp(offset) * horizons**slope, zorder=2, **_line_look(series))
    _log_x(left, horizons[::4].tolist())
    left.set_yscale("log")
    legend_over(left)
    letter(left, "a", "Horizon $T$ (slots)", r"Variation budget $V_T$")
    for policy in ("MoveUCB", "GP-UCB", "Sweep-and-hold"):
        line(right, outcome, "b", policy, "regret")
    counts, _, _ = outcome.select("b", "MoveUCB", "regret")
    _log_x(right, counts)
    legend_over(right, ncols=2)
    letter(right, "b", "Change points $S$", REGRET, from_zero=True)
    note_errors(figure, outcome, "a", "b")
    return figure


def draw_kernel(outcome: Outcome) -> Figure:
    figure, (left, right) = panels()
    arrays = {name: np.array(values) for name, values in outcome.arrays.items()}
    left.plot(arrays["position"], arrays["truth"], color="black", linewidth=1.3, label="$g_t$")
    for kernel in KERNELS:
        left.plot(arrays["position"], arrays[kernel], label=kernel, **_line_look(kernel))
    look: dict[str, Any] = {
        "linestyle": "none",
        "marker": "x",
        "markersize": 2.6,
        "color": "#555555",
    }
    samples = arrays["sample_position"], arrays["sample_reward"]
    left.plot(*samples, label="Samples", zorder=2, **look)
    left.set_xlim(arrays["position"][0], arrays["position"][-1])
    legend_above(figure, *left.get_legend_handles_labels())
    letter(left, "a", r"Position $x$ ($\lambda$)", f"Reward ({RATE})")
    for at, kernel in enumerate(KERNELS):
        _, mean, error = outcome.select("b", kernel, "rmse")
        _bar(right, at, mean[0], error[0], 0.62, kernel)
    names = [
        f"{kernel}\n({outcome.notes[f'{kernel} length']:g}$\\lambda$)"
        if f"{kernel} length" in outcome.notes
        else f"{kernel}\n"
        for kernel in KERNELS
    ]
    right.set_xticks(range(len(KERNELS)), names)
    _plain_x(right)
    letter(right, "b", y=rf"RMSE of $\mu_t$ ({RATE})")
    note_errors(figure, outcome, "b")
    return figure


def draw_confidence(outcome: Outcome) -> Figure:
    figure, (left, right) = panels()
    for policy in ("MoveUCB", "GP-UCB"):
        line(left, outcome, "a", policy, "regret")
        line(right, outcome, "a", policy, "travel")
        best = float(outcome.notes[f"{policy} best beta"])
        x, mean, _ = outcome.select("a", policy, "regret")
        star = {"marker": "*", "markersize": 7, "color": LOOKS[policy]["color"]}
        left.plot(best, mean[x.index(best)], zorder=5, **star)
    letter(left, "a", r"Confidence parameter $\beta$", REGRET, from_zero=True)
    right.set_yscale("log")
    letter(right, "b", r"Confidence parameter $\beta$", TRAVEL)
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


def draw_offset(outcome: Outcome) -> Figure:
    """The share of the gap between Fixed and the oracle that is closed, over the SNR."""
    figure, axes = panels()
    names = {"none": "MoveUCB", "survey": "MoveUCB with the survey's offset"}
    looks = {"none": LOOKS["MoveUCB"], "survey": LOOKS["GP-UCB"]}
    for panel, each in zip("ab", axes, strict=True):
        for series, name in names.items():
            look = {**looks[series], "label": name}
            line(each, outcome, panel, series, "gap_closed", look, scale=100.0)
        each.axhline(0.0, color="#555555", linewidth=0.6)
        drift = "Continuous drift" if panel == "a" else "Ten change points"
        letter(each, panel, f"SNR (dB). {drift}", "Gap closed (%)")
    legend_above(figure, *axes[0].get_legend_handles_labels())
    note_errors(figure, outcome, "a", "b")
    return figure


def draw_ablation(outcome: Outcome) -> Figure:
    figure, (weight, margin, regret, switches) = panels(2)
    _sweep(weight, outcome, "a", r"Weight $\eta$")
    _sweep(margin, outcome, "b", r"Margin $\Delta/\sigma_f$")
    _ladder(regret, outcome, "c")
    _ladder(switches, outcome, "d")
    keys = [Line2D([], [], markerfacecolor="white", **LOOKS[name]) for name in QUANTITIES]
    legend_above(figure, keys, list(QUANTITIES.values()))
    note_errors(figure, outcome, "a", "b", "c")
    return figure


def _sweep(axes: Axes, outcome: Outcome, panel: str, label: str) -> None:
    line(axes, outcome, panel, "MoveUCB", "regret", LOOKS["regret"])
    axes.set_ylabel(REGRET, color=LOOKS["regret"]["color"])
    axes.tick_params(which="both", right=False)
    other = axes.twinx()
    for quantity in ("travel", "switches"):
        line(other, outcome, panel, "MoveUCB", quantity, LOOKS[quantity])
    if panel == "a":  # a linear scale suffices
        other.set_ylim(bottom=0)
        axes.set_xticks(range(0, 9, 2))
    else:
        other.set_yscale("log")
    other.set_ylabel(TRAVEL_AND_SWITCHES)
    other.grid(visible=False)
    letter(axes, panel, label, from_zero=True)


def _ladder(axes: Axes, outcome: Outcome, panel: str) -> None:
    """(c): regret at both movement costs; (d): travel and switches."""
    if panel == "c":
        _bars(axes, outcome, "regret", offset=0.0, width=0.38)
        axes.set_ylabel(REGRET)
        legend_over(
            axes,
            handles=[
                Patch(facecolor="white", edgecolor="black", hatch=hatch, linewidth=0.5, label=name)
                for hatch, series in zip(HATCHES, outcome.series("c"), strict=True)
                for name in [series.replace("c_e", r"$c_{\mathrm{e}}$")]
            ],
            ncols=2,
        )
    else:
        _bars(axes, outcome, "travel", offset=-0.2, width=0.19)
        _bars(axes, outcome, "switches", offset=0.2, width=0.19)
        axes.set_yscale("log")
        axes.set_ylabel(TRAVEL_AND_SWITCHES)
    _plain_x(axes)
    letter(axes, panel)


def _bars(axes: Axes, outcome: Outcome, quantity: str, *, offset: float, width: float) -> None:
    rungs, _, _ = outcome.select("c", outcome.series("c")[0], "regret")
    for number, (series, hatch) in enumerate(zip(outcome.series("c"), HATCHES, strict=True)):
        at, mean, error = outcome.select("c", series, quantity)
        axes.bar(
            np.array([rungs.index(rung) for rung in at]) + offset + (number - 0.5) * width,
            mean,
            width * 0.94,
            yerr=np.nan_to_num(error),
            color=LOOKS[quantity]["color"],
            hatch=hatch,
            **_BAR,
        )
    axes.set_xticks(range(len(rungs)), [str(rung) for rung in rungs])


def _line_look(series: str) -> dict[str, Any]:
    """The look of a line without markers."""
    return {key: LOOKS[series][key] for key in ("color", "linestyle")}


def _bar(
    axes: Axes, at: float, mean: float, error: float, width: float, name: str, **options: Any
) -> None:
    """Draw one bar with its error, if it has one."""
    yerr = error if np.isfinite(error) else None
    axes.bar(at, mean, width, yerr=yerr, color=LOOKS[name]["color"], **_BAR, **options)


def _plain_x(axes: Axes) -> None:
    """No ticks and no grid along the axis of names."""
    axes.tick_params(axis="x", length=0)
    axes.grid(visible=False, axis="x")


def _log_x(axes: Axes, ticks: Sequence[float | str]) -> None:
    """A logarithmic axis with ticks at the values of the parameter."""
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator([float(tick) for tick in ticks]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda tick, _: f"{tick:g}")


DRAWINGS: dict[str, dict[str, Callable[[Outcome], Figure]]] = {
    "main": {"main": draw_main, "main-over-time": draw_main_over_time},
    "movement-cost": {"movement-cost": draw_movement_cost},
    "variation": {"variation": draw_variation},
    "kernel": {"kernel": draw_kernel},
    "confidence": {"confidence": draw_confidence},
    "ablation": {"ablation": draw_ablation},
    "offset": {"offset": draw_offset},
    "panel": {"panel": draw_panel},
}


def draw(folder: Path, name: str, outcome: Outcome) -> list[Path]:
    """Draw a figure into a folder; return the written files."""
    written = []
    for file, drawing in DRAWINGS[name].items():
        with paper_style():
            figure = drawing(outcome)
            for ending in ("png", "svg"):
                path = folder / f"{file}.{ending}"
                save_figure(figure, path)
                written.append(path)
    return written
