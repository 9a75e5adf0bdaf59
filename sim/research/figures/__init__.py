"""The figures of the paper and beyond: the tasks that each needs, and what it measures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from macontrol.sim.research.campaign import Results
from macontrol.sim.research.figures import kernel, main, offset, parameters, variation
from macontrol.sim.research.figures.setting import Setting
from macontrol.sim.research.outcome import Outcome
from macontrol.sim.research.tasks import Task


class Figure(NamedTuple):
    """A figure. Its tasks are known in advance, so that the remaining time is known too."""

    tasks: Callable[[Setting], Iterator[Task]]
    measure: Callable[[Setting, Results], Outcome]


PAPER_FIGURES: dict[str, Figure] = {
    "main": Figure(main.tasks, main.measure),
    "movement-cost": Figure(parameters.movement_cost_tasks, parameters.measure_movement_cost),
    "variation": Figure(variation.tasks, variation.measure),
    "kernel": Figure(kernel.tasks, kernel.measure),
    "confidence": Figure(parameters.confidence_tasks, parameters.measure_confidence),
    "ablation": Figure(parameters.ablation_tasks, parameters.measure_ablation),
}
FIGURES: dict[str, Figure] = {
    **PAPER_FIGURES,
    "offset": Figure(offset.tasks, offset.measure),
}

__all__ = ["FIGURES", "PAPER_FIGURES", "Setting"]
