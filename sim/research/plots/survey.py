"""Plot of a survey: the reward along the rail."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from macontrol.config import Config
from macontrol.controller.survey.samples import Survey
from macontrol.sim.research.plots.style import (
    LOOKS,
    RATE,
    legend_above,
    millimetre_axis,
    paper_style,
    save_figure,
)


def draw_survey(path: Path, config: Config, survey: Survey) -> None:
    """Draw a survey into a PNG, SVG or PDF file."""
    with paper_style():
        save_figure(survey_figure(config, survey), path)


def survey_figure(config: Config, survey: Survey) -> Figure:
    """The samples along the rail, the best position, and that of a fixed antenna."""
    mm, x_0 = config.physical.wavelength_mm, config.physical.x_0
    best, top = survey.best_position, float(survey.reward.max())
    order = np.argsort(survey.position)
    at_x_0 = float(np.interp(x_0, survey.position[order], survey.reward[order]))
    figure, axes = plt.subplots(figsize=(4.6, 2.5))
    axes.plot(survey.position, survey.reward, **LOOKS["MoveUCB"], markerfacecolor="white")
    axes.axvline(best, color="#D55E00", linestyle="--", zorder=1.5)
    axes.axvline(x_0, color="#CC79A7", linestyle=(0, (6, 2)), zorder=1.5)
    axes.set_xlim(0.0, config.physical.region_length)
    axes.set_ylim(bottom=min(0.0, float(survey.reward.min())))
    axes.set_xlabel(r"Position $x$ ($\lambda$)")
    axes.set_ylabel(f"Reward $g(x)$ ({RATE})")
    millimetre_axis(axes, config, "top")
    look = {**LOOKS["MoveUCB"], "markerfacecolor": "white"}
    legend_above(
        figure,
        [
            Line2D([], [], **look),
            Line2D([], [], color="#D55E00", linestyle="--"),
            Line2D([], [], color="#CC79A7", linestyle=(0, (6, 2))),
        ],
        [
            "one sample each",
            f"best: {top:.2f} at {best:.3f} λ, {best * mm:.1f} mm",
            f"fixed at $x_0$: {at_x_0:.2f} at {x_0:.3f} λ, {x_0 * mm:.1f} mm",
        ],
    )
    return figure
