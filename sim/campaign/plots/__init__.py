"""The figures drawn, as PNG and SVG, from an outcome's numbers and nothing else.

The one part of the project that needs matplotlib, an optional dependency.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from matplotlib.figure import Figure

from macontrol.config.errors import InputOutputError
from macontrol.sim.campaign.figures.outcome import Outcome
from macontrol.sim.campaign.plots import (
    ablation,
    confidence,
    kernel,
    main,
    movement_cost,
    variation,
)
from macontrol.sim.campaign.plots.style import DPI, paper_style

_DRAWINGS: dict[str, dict[str, Callable[[Outcome], Figure]]] = {
    "main": {"main": main.draw, "main-over-time": main.draw_time},
    "movement-cost": {"movement-cost": movement_cost.draw},
    "variation": {"variation": variation.draw},
    "kernel": {"kernel": kernel.draw},
    "confidence": {"confidence": confidence.draw},
    "ablation": {"ablation": ablation.draw},
}


def draw(folder: Path, name: str, outcome: Outcome) -> None:
    """Draw a figure of the paper into a folder."""
    for file, drawing in _DRAWINGS[name].items():
        with paper_style():
            figure = drawing(outcome)
            for ending in ("png", "svg"):
                path = folder / f"{file}.{ending}"
                # No date in it: the same numbers give the same file.
                metadata = {"Date": None} if ending == "svg" else None
                try:
                    figure.savefig(path, dpi=DPI, metadata=metadata)
                except OSError as error:
                    raise InputOutputError(
                        f"{path}: cannot be written: {error.strerror or error}"
                    ) from error
