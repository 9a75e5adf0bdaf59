"""The plots of the figures, as PNG and SVG, from the numbers of an outcome.

Only this package needs matplotlib, which is an optional dependency.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from matplotlib.figure import Figure

from macontrol.sim.research.figures.outcome import Outcome
from macontrol.sim.research.plots import (
    ablation,
    confidence,
    kernel,
    main,
    movement_cost,
    variation,
)
from macontrol.sim.research.plots.style import paper_style, save_figure

DRAWINGS: dict[str, dict[str, Callable[[Outcome], Figure]]] = {
    "main": {"main": main.draw, "main-over-time": main.draw_time},
    "movement-cost": {"movement-cost": movement_cost.draw},
    "variation": {"variation": variation.draw},
    "kernel": {"kernel": kernel.draw},
    "confidence": {"confidence": confidence.draw},
    "ablation": {"ablation": ablation.draw},
}


def draw(folder: Path, name: str, outcome: Outcome) -> list[Path]:
    """Draw a figure of the paper into a folder; return the written files."""
    written = []
    for file, drawing in DRAWINGS[name].items():
        with paper_style():
            figure = drawing(outcome)
            for ending in ("png", "svg"):
                path = folder / f"{file}.{ending}"
                save_figure(figure, path)
                written.append(path)
    return written
