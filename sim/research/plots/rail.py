"""Plots along the rail: a survey, and one run with the path of the antenna over time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.patheffects import Normal, Stroke
from numpy.typing import NDArray

from macontrol.config import Config
from macontrol.controller.survey.samples import Survey
from macontrol.sim.research.episode import Episode
from macontrol.sim.research.figures.setting import POLICIES
from macontrol.sim.research.plots.style import (
    LOOKS,
    RATE,
    legend_above,
    millimetre_axis,
    paper_style,
    save_figure,
)
from macontrol.sim.world.rewardmap import RewardMap

Array = NDArray[np.float64]

_COLUMNS = 320
"""The map is averaged to at most this number of columns; finer ones are not visible."""
_STRETCHES = 150
"""The rewards are averaged over this fraction of the run."""

_NAMES = {name: label for label, name in POLICIES.items()}


def _outlined(width: float, colour: str = "white") -> list[Any]:
    """An outline, so that a line is visible on dark and on light parts of the map."""
    return [Stroke(linewidth=width + 1.1, foreground=colour), Normal()]


_ANTENNA: dict[str, Any] = {"color": "#D55E00", "linewidth": 1.3}
_TARGET: dict[str, Any] = {"color": "black", "linewidth": 0.7, "linestyle": (0, (2, 1))}
_FIXED: dict[str, Any] = {"color": "#CC79A7", "linewidth": 1.1, "linestyle": (0, (6, 2))}
_EARLIER: dict[str, Any] = {"color": "#999999", "linewidth": 0.6, "zorder": 1.2}
_UNKNOWN: dict[str, Any] = {
    "hatch": "////",
    "facecolor": "white",
    "edgecolor": "#BBBBBB",
    "linewidth": 0.0,
}
_BEST: dict[str, Any] = {"color": "#777777", "linewidth": 1.1, "linestyle": "-"}


def draw_episode(path: Path, config: Config, world: RewardMap, episode: Episode) -> None:
    """Draw a replayed run into a PNG, SVG or PDF file."""
    with paper_style():
        save_figure(episode_figure(config, world, episode), path)


def episode_figure(config: Config, world: RewardMap, episode: Episode) -> Figure:
    """The map with the path of the antenna; below, its reward, the best, and a fixed antenna's."""
    length, slot_s = config.physical.region_length, config.physical.slot_duration_s
    run, slots = episode.trajectory, world.slots
    grid = config.grid
    fixed = grid.nearest(config.physical.x_0)
    seconds: Array = np.arange(1, slots + 1) * np.float64(slot_s)
    end = float(seconds[-1]) if slots > 1 else 2 * slot_s
    figure, (above, below) = plt.subplots(
        2, 1, figsize=(7.2, 4.1), sharex=True, height_ratios=(2.1, 1)
    )
    above.grid(visible=False)
    if world.available is not None:  # an image has no colour there
        above.add_patch(Rectangle((0.0, 0.0), end, length, zorder=-1, **_UNKNOWN))
    image = above.imshow(
        _columns(world.reward).T,
        origin="lower",
        aspect="auto",
        extent=(0.0, end, 0.0, length),
        cmap="cividis",
        interpolation="nearest",
    )
    place = float(grid.points[fixed])
    above.plot([0.0, end], [place, place], **_FIXED, path_effects=_outlined(1.1, "black"))
    above.plot(seconds, run.position, **_ANTENNA, path_effects=_outlined(1.3), zorder=3)
    above.plot(seconds, run.target, **_TARGET, path_effects=_outlined(0.7), zorder=2.8)
    above.set_ylabel(r"Position $x$ ($\lambda$)")
    millimetre_axis(above, config, "right")
    figure.colorbar(image, ax=above, label=f"Reward $g_t(x)$ ({RATE})", pad=0.01)

    width = max(1, slots // _STRETCHES)
    rewards = {
        "best": _best(world.reward),
        "fixed": world.reward[:, fixed],
        "run": episode.reward,
    }
    for name, look in (("best", _BEST), ("fixed", _FIXED), ("run", _ANTENNA)):
        below.plot(_means(seconds, width), _means(rewards[name], width), **look)
    below.set_ylabel(f"Reward ({RATE})")
    below.set_xlabel(f"Time (s); rewards are means over {width * slot_s:.3g} s")
    below.set_xlim(0.0, end)
    name = _NAMES[config.algorithm.policy]
    means = {key: _mean(value) for key, value in rewards.items()}
    handles: list[Any] = [Line2D([], [], **look) for look in (_ANTENNA, _TARGET, _FIXED, _BEST)]
    labels = [
        f"{name}: mean {means['run']}",
        "its target",
        f"fixed antenna at $x_0$: mean {means['fixed']}",
        f"best position in each slot: mean {means['best']}",
    ]
    if world.available is not None:
        labels[-1] = f"best known position: mean {means['best']}"
        handles.append(Rectangle((0.0, 0.0), 1.0, 1.0, **_UNKNOWN))
        labels.append("unknown")
    legend_above(figure, handles, labels)
    return figure


def _best(reward: Array) -> Array:
    """The highest known reward of each slot; NaN if none is known."""
    best = np.where(np.isnan(reward), -np.inf, reward).max(axis=1)
    return np.where(np.isfinite(best), best, np.nan)


def _mean(reward: Array) -> str:
    """The mean of the known rewards."""
    known = reward[~np.isnan(reward)]
    return f"{known.mean():.2f}" if len(known) else "unknown"


def _columns(reward: Array) -> Array:
    """The map averaged over groups of slots: one row per column of the plot; NaN if unknown."""
    edges = np.unique(np.linspace(0, len(reward), min(len(reward), _COLUMNS) + 1).astype(int))
    known = ~np.isnan(reward)
    sums = np.add.reduceat(np.where(known, reward, 0.0), edges[:-1], axis=0)
    counts = np.add.reduceat(known.astype(np.intp), edges[:-1], axis=0)
    with np.errstate(invalid="ignore"):  # 0/0 where nothing is known
        return np.asarray(sums / counts)


def _means(values: Array, width: int) -> Array:
    """Running means over `width` slots; NaN if one of them is unknown."""
    return np.convolve(values, np.full(width, 1 / width), mode="valid")


def draw_survey(path: Path, config: Config, walks: Sequence[Survey]) -> None:
    """Draw a survey of one walk or more into a PNG, SVG or PDF file."""
    with paper_style():
        save_figure(survey_figure(config, walks[-1], walks[:-1]), path)


def survey_figure(config: Config, survey: Survey, earlier: Sequence[Survey] = ()) -> Figure:
    """The samples along the rail, the best position, and that of a fixed antenna."""
    to_mm, x_0 = config.physical.to_mm, config.physical.x_0
    best, top = survey.best_position, float(survey.reward.max())
    order = np.argsort(survey.position)
    at_x_0 = float(np.interp(x_0, survey.position[order], survey.reward[order]))
    figure, axes = plt.subplots(figsize=(5.8 if earlier else 4.6, 2.5))
    sample: dict[str, Any] = {**LOOKS["MoveUCB"], "markerfacecolor": "white"}
    at_best: dict[str, Any] = {"color": "#D55E00", "linestyle": "--"}
    at_fixed: dict[str, Any] = {"color": "#CC79A7", "linestyle": (0, (6, 2))}
    for walk in earlier:
        axes.plot(walk.position, walk.reward, **_EARLIER)
    axes.plot(survey.position, survey.reward, **sample)
    axes.axvline(best, zorder=1.5, **at_best)
    axes.axvline(x_0, zorder=1.5, **at_fixed)
    axes.set_xlim(0.0, config.physical.region_length)
    lowest = min(float(walk.reward.min()) for walk in (survey, *earlier))
    axes.set_ylim(bottom=min(0.0, lowest))
    axes.set_xlabel(r"Position $x$ ($\lambda$)")
    axes.set_ylabel(f"Reward $g(x)$ ({RATE})")
    millimetre_axis(axes, config, "top")
    shown = (sample, _EARLIER) if earlier else (sample,)
    legend_above(
        figure,
        [Line2D([], [], **look) for look in (*shown, at_best, at_fixed)],
        [
            *(("last walk", "earlier walks") if earlier else ("one sample each",)),
            f"best: {top:.2f} at {best:.3f} λ, {to_mm(best):.1f} mm",
            f"fixed at $x_0$: {at_x_0:.2f} at {x_0:.3f} λ, {to_mm(x_0):.1f} mm",
        ],
    )
    return figure
