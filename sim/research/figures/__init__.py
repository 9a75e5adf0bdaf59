"""The figures of the paper: the tasks that each needs, and what it measures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from macontrol.sim.research.figures import (
    ablation,
    confidence,
    kernel,
    main,
    movement_cost,
    variation,
)
from macontrol.sim.research.figures.outcome import Outcome
from macontrol.sim.research.figures.setting import Setting
from macontrol.sim.research.store import Results
from macontrol.sim.research.tasks import Task


class FigureModule(Protocol):
    """A figure. Its tasks are known in advance, so that the remaining time is known too."""

    TITLE: str

    def tasks(self, setting: Setting) -> Iterator[Task]: ...
    def measure(self, setting: Setting, results: Results) -> Outcome: ...


FIGURES: dict[str, FigureModule] = {
    "main": main,
    "movement-cost": movement_cost,
    "variation": variation,
    "kernel": kernel,
    "confidence": confidence,
    "ablation": ablation,
}

__all__ = ["FIGURES", "FigureModule", "Outcome", "Setting"]
