"""One run as a picture: the reward over rail and time, with the antenna's way through it."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from macontrol.config import Config
from macontrol.config.errors import InputOutputError
from macontrol.sim.campaign.episode import Episode
from macontrol.sim.campaign.plots.style import DPI, LOOKS, paper_style
from macontrol.sim.rewardmap import RewardMap

_MOST_COLUMNS = 1500


def draw_episode(path: Path, config: Config, world: RewardMap, episode: Episode) -> None:
    """Draw a replayed run into a PNG or SVG file."""
    length, slot_s = config.physical.region_length, config.physical.slot_duration_s
    run, slots = episode.trajectory, world.slots
    seconds = np.arange(1, slots + 1) * slot_s
    with paper_style():
        figure, (above, below) = plt.subplots(
            2, 1, figsize=(7.2, 3.6), sharex=True, height_ratios=(2.2, 1)
        )
        above.grid(visible=False)
        image = above.imshow(
            world.reward[:: max(1, slots // _MOST_COLUMNS)].T,
            origin="lower",
            aspect="auto",
            extent=(seconds[0], seconds[-1], 0.0, length),
            cmap="cividis",
            interpolation="nearest",
        )
        figure.colorbar(image, ax=(above, below), label="Reward $g_t(x)$", pad=0.01)
        above.plot(seconds, run.target, color="white", linewidth=0.5, linestyle=":", label="Target")
        above.plot(seconds, run.position, color="#D55E00", linewidth=1.1, label="Antenna")
        above.legend(loc="upper right", ncols=2)
        above.set_ylabel(r"Position ($\lambda$)")
        width = max(1, slots // 150)
        mean = np.convolve(episode.reward, np.full(width, 1 / width), mode="same")
        best = np.convolve(world.reward.max(axis=1), np.full(width, 1 / width), mode="same")
        inner = slice(width // 2, slots - width // 2)
        below.plot(seconds[inner], best[inner], color="#999999", label="Best on the rail")
        look = {**LOOKS["MoveUCB"], "marker": ""}
        below.plot(seconds[inner], mean[inner], label=config.algorithm.policy, **look)
        below.legend(loc="lower right", ncols=2)
        below.set_ylabel("Reward")
        below.set_xlabel("Time (s)")
        try:
            figure.savefig(path, dpi=DPI)
        except (OSError, ValueError) as error:
            raise InputOutputError(f"{path}: the plot cannot be written: {error}") from error
