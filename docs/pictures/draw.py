"""Draw the pictures of docs/start-here.md with the project's own simulator and policies.

Run it from the repository, after `make test` has installed matplotlib:

    .venv/bin/python docs/pictures/draw.py

The seed is fixed, so the same version draws the same pictures.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import Normal, Stroke
from numpy.typing import NDArray

from macontrol.config import Config, load_config
from macontrol.controller.survey.samples import Survey
from macontrol.sim.research.episode import Episode, play
from macontrol.sim.research.oracle import oracle_path
from macontrol.sim.research.plots.style import RATE, legend_above, paper_style, save_figure
from macontrol.sim.world.rewardmap import RewardMap, simulate_map

FOLDER = Path(__file__).parent
SEED, SLOTS = 2, 3000
_COLUMNS = 250
"""The map is averaged to this number of columns: a small file, and no visible loss."""
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#777777"
POSITION = r"Position $x$ ($\lambda$)"
REWARD = f"Reward ({RATE})"


def main() -> None:
    """Draw all pictures into the folder of this script."""
    config = load_config(preset="paper")
    world = simulate_map(config, SEED, SLOTS)
    run = play(config, world)
    oracle = oracle_path(world.reward, config)
    earned = world.reward[np.arange(SLOTS), oracle.index]
    with paper_style():
        pictures = {
            "slot": draw_slot(config),
            "stroke": draw_stroke(config, run),
            "reward": draw_reward(config, world, run),
            "oracle": draw_oracle(config, world, run, oracle.position),
            "regret": draw_regret(config, world, oracle.position, earned),
            "sigma_f": draw_sigma_f(config, world),
        }
        for name, figure in pictures.items():
            save_figure(figure, FOLDER / f"{name}.png")


def draw_slot(config: Config) -> Figure:
    """The phases of one slot on a time axis, in milliseconds."""
    physical, timing = config.physical, config.timing
    slot_ms, move_ms = 1e3 * physical.slot_duration_s, 1e3 * physical.actuation_time_s
    guard_ms, decide_ms = slot_ms * timing.guard_share, slot_ms * timing.decision_share
    figure, axes = plt.subplots(figsize=(5.6, 1.35))
    phases = (
        ("move", 0.0, move_ms, ORANGE),
        ("", move_ms, guard_ms, "#cccccc"),
        ("measure", move_ms + guard_ms, slot_ms - decide_ms - move_ms - guard_ms, BLUE),
        ("decide", slot_ms - decide_ms, decide_ms, GREEN),
    )
    for label, begin, width, colour in phases:
        axes.broken_barh([(begin, width)], (0.0, 1.0), facecolors=colour, edgecolor="white")
        axes.text(begin + width / 2, 0.5, label, ha="center", va="center", color="white")
    axes.broken_barh([(slot_ms, move_ms)], (0.0, 1.0), facecolors=ORANGE, alpha=0.35)
    axes.text(slot_ms + move_ms / 2, 0.5, "move", ha="center", va="center", color="white")
    axes.annotate(
        "guard interval",
        (move_ms + guard_ms / 2, 1.0),
        (move_ms + 0.25, 1.3),
        fontsize=7,
        arrowprops={"arrowstyle": "-", "linewidth": 0.5},
        va="center",
    )
    ticks = (
        (0.0, "$s_t$"),
        (move_ms, "$s_t + T_a$"),
        (slot_ms, "$s_{t+1} = s_t + T_s$"),
    )
    axes.set_xticks([t for t, _ in ticks], [f"{name}\n{t:g} ms" for t, name in ticks])
    axes.set(xlim=(-0.05, slot_ms + 0.7 * move_ms), ylim=(0.0, 1.55), yticks=[])
    axes.tick_params(top=False, right=False, direction="out")
    axes.grid(visible=False)
    axes.spines[["top", "left", "right"]].set_visible(False)
    return figure


def draw_stroke(config: Config, run: Episode) -> Figure:
    """The end of the first journey of a run, with the positions in reach of each slot."""
    position, target = run.trajectory.position, run.trajectory.target
    rho_max = config.physical.rho_max
    arrival = int(np.isclose(position, target).argmax())
    rows = np.arange(arrival - 9, arrival + 5)
    slots = rows + 1
    figure, axes = plt.subplots(figsize=(5.6, 2.4))
    axes.bar(
        slots,
        2 * rho_max,
        bottom=position[rows - 1] - rho_max,
        width=0.9,
        color=BLUE,
        alpha=0.2,
        label=r"in reach: one stroke $\rho_{max}$ either way",
    )
    axes.plot(slots, position[rows], "o-", color=ORANGE, label="antenna $x_t$")
    axes.step(slots, target[rows], "k--", where="mid", linewidth=0.8, label="target $z_t$")
    axes.set(xlabel="Slot $t$", ylabel=POSITION, xlim=(slots[0] - 0.5, slots[-1] + 0.5))
    _legend(figure, axes)
    return figure


def draw_reward(config: Config, world: RewardMap, run: Episode) -> Figure:
    """The reward along the rail in two slots a second apart, and what the antenna sees of it."""
    now = 1000
    later = now + round(1.0 / config.physical.slot_duration_s)
    points = config.grid.points
    figure, axes = plt.subplots(figsize=(5.6, 2.4))
    for slot, colour, label in ((now, BLUE, "$g_t(x)$ now"), (later, GREY, "one second later")):
        axes.plot(points, world.reward[slot], color=colour, label=label)
    x, seen = run.trajectory.position[now], run.observed[now]
    axes.errorbar(
        [x],
        [seen],
        yerr=[config.noise_std],
        fmt="o",
        color=ORANGE,
        zorder=4,
        label=r"what the antenna measures: $r_t = g_t(x_t) + \varepsilon_t$",
    )
    axes.axvline(x, color=ORANGE, linewidth=0.6, linestyle=":")
    axes.set(xlabel=POSITION, ylabel=REWARD, xlim=(points[0], points[-1]), ylim=(0, None))
    _legend(figure, axes)
    return figure


def draw_oracle(
    config: Config, world: RewardMap, run: Episode, best: NDArray[np.float64]
) -> Figure:
    """The reward over rail and time, with the ways of the oracle and of MoveUCB through it."""
    seconds = np.arange(1, world.slots + 1) * config.physical.slot_duration_s
    figure, axes = plt.subplots(figsize=(5.6, 2.6))
    columns = world.reward.reshape(_COLUMNS, -1, world.reward.shape[1]).mean(axis=1)
    image = axes.imshow(
        columns.T,
        origin="lower",
        aspect="auto",
        cmap="cividis",
        extent=(0.0, float(seconds[-1]), 0.0, config.physical.region_length),
    )
    rim = [Stroke(linewidth=2.6, foreground="black"), Normal()]
    axes.plot(seconds, best, color="white", linewidth=1.4, label="oracle", path_effects=rim)
    axes.plot(seconds, run.trajectory.position, color=ORANGE, linewidth=1.2, label="MoveUCB")
    axes.grid(visible=False)
    axes.set(xlabel="Time (s)", ylabel=POSITION)
    figure.colorbar(image, ax=axes, label=f"Reward $g_t(x)$ ({RATE})", pad=0.01)
    legend = axes.legend(loc="upper right", facecolor="#555555", labelcolor="white")
    legend.set_zorder(5)
    return figure


def draw_regret(
    config: Config, world: RewardMap, best: NDArray[np.float64], earned: NDArray[np.float64]
) -> Figure:
    """How far each policy falls behind the oracle, slot after slot."""
    slots = np.arange(1, world.slots + 1)
    oracle_net = _net(config, best, earned)
    figure, axes = plt.subplots(figsize=(5.6, 2.4))
    for name, label, colour, line in (
        ("fixed", "Fixed", GREY, "-."),
        ("gp-ucb", "GP-UCB", GREEN, "--"),
        ("moveucb", "MoveUCB", BLUE, "-"),
    ):
        run = play(load_config(None, [f"algorithm.policy={name}"]), world)
        behind = oracle_net - _net(config, run.trajectory.position, run.reward)
        text = f"{label}: {behind[-1] / world.slots:.2f} per slot"
        axes.plot(slots, behind, color=colour, linestyle=line, label=text)
    axes.set(xlabel="Slot $t$", ylabel="Regret so far\n(bit/s/Hz, summed)", xlim=(0, world.slots))
    axes.set_ylim(bottom=0)
    _legend(figure, axes)
    return figure


def _net(
    config: Config, position: NDArray[np.float64], earned: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The objective summed up to each slot: the reward less c_e per wavelength travelled."""
    way = np.abs(np.diff(position, prepend=config.physical.x_0))
    return np.cumsum(earned - config.reward.movement_cost * way)


def draw_sigma_f(config: Config, world: RewardMap) -> Figure:
    """The survey before slot 1, and the spread of the reward that it gives."""
    survey = Survey(world.survey_position, world.survey_reward)
    sigma_f, mean = survey.sigma_f2(config) ** 0.5, float(survey.reward.mean())
    noise = config.noise_std
    figure, axes = plt.subplots(figsize=(5.6, 2.4))
    length = config.physical.region_length
    axes.fill_between(
        [0.0, length],
        mean - sigma_f,
        mean + sigma_f,
        color=BLUE,
        alpha=0.18,
        label=rf"mean $\pm\,\sigma_f$, with $\sigma_f$ = {sigma_f:.2f}",
    )
    axes.axhline(mean, color=BLUE, linewidth=0.8)
    axes.errorbar(
        survey.position,
        survey.reward,
        yerr=config.noise_std,
        fmt=".",
        color=ORANGE,
        elinewidth=0.5,
        capsize=0,
        label=rf"{len(survey.reward)} survey samples, noise $\sigma_\varepsilon$ = {noise:.2f}",
    )
    axes.set(xlabel=POSITION, ylabel=REWARD, xlim=(0.0, length))
    _legend(figure, axes)
    return figure


def _legend(figure: Figure, axes: Axes) -> None:
    handles: list[Any]
    handles, labels = axes.get_legend_handles_labels()
    legend_above(figure, handles, labels)


if __name__ == "__main__":
    main()
