"""A walked survey as a picture: the reward along the rail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from macontrol.config import Config
from macontrol.config.errors import InputOutputError
from macontrol.controller.survey import Survey
from macontrol.sim.campaign.plots.style import DPI, LOOKS, paper_style


def draw_survey(path: Path, config: Config, survey: Survey) -> None:
    """Draw a survey into a PNG or SVG file."""
    wavelength_mm = config.physical.wavelength_mm

    def to_mm(position: Any) -> Any:  # matplotlib gives numbers and arrays
        return position * wavelength_mm

    def from_mm(position_mm: Any) -> Any:
        return position_mm / wavelength_mm

    with paper_style():
        figure, axes = plt.subplots(figsize=(4.6, 2.2))
        axes.plot(survey.position, survey.reward, **LOOKS["MoveUCB"], label="Measured")
        axes.axvline(
            survey.best_position,
            color="#D55E00",
            linestyle="--",
            label=f"Best: {survey.best_position:.3f} λ",
        )
        axes.set_xlim(0.0, config.physical.region_length)
        axes.set_ylim(bottom=min(0.0, float(survey.reward.min())))
        axes.set_xlabel(r"Position ($\lambda$)")
        axes.set_ylabel("Reward $g(x)$")
        axes.tick_params(top=False)
        millimetres = axes.secondary_xaxis("top", functions=(to_mm, from_mm))
        millimetres.set_xlabel("Position (mm)")
        axes.legend()
        try:
            figure.savefig(path, dpi=DPI)
        except (OSError, ValueError) as error:
            raise InputOutputError(f"{path}: the plot cannot be written: {error}") from error
