"""What a panel computes and measures: regret and travel of each policy, relative to MoveUCB.

In a cell the ratio is one of means, R = Σ v_i / Σ b_i over the realizations i, with v_i of the
policy and b_i of the reference in the same realization. Its standard error is that of the delta
method: the root of Σ d_i², with

    d_i = (v_i − R·b_i) / (n·b̄) · √(n/(n − 1)).

An average over C cells is the mean of their ratios. Cells share seeds, and so parts of their
worlds: its standard error is the root of the sum over seeds of (Σ over cells of d_i / C)².
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import nan, sqrt

import numpy as np

from macontrol.config import Config
from macontrol.sim.research.campaign import Results
from macontrol.sim.research.outcome import Array, Estimate, Outcome, Row, estimate
from macontrol.sim.research.panel.cells import AVERAGED, Cell
from macontrol.sim.research.panel.contenders import REFERENCE, Contender
from macontrol.sim.research.panel.plays import PanelPlay
from macontrol.sim.research.tasks import Oracle, Task, Variation

QUANTITIES = ("regret", "travel")
AVERAGE = "average"
"""The name of the panel of averages in an outcome."""
TOTAL = " + ".join(AVERAGED)
"""The name of the average over the cells of AVERAGED."""


@dataclass(frozen=True)
class Ratio:
    """A ratio to the reference, with the part of each seed in its error."""

    value: float
    parts: dict[int, float]
    """d_i by seed."""
    count: int
    """Of realizations, or of the cells of an average."""

    @classmethod
    def of(cls, seeds: Sequence[int], values: Array, reference: Array) -> Ratio | None:
        """The ratio of means; None if the reference has a mean of 0."""
        count, mean = len(seeds), float(reference.mean())
        if mean <= 0:
            return None
        ratio = float(values.mean()) / mean
        correction = sqrt(count / (count - 1)) if count > 1 else nan
        parts = (values - ratio * reference) / (count * mean) * correction
        return cls(ratio, dict(zip(seeds, parts.tolist(), strict=True)), count)

    @classmethod
    def average(cls, ratios: Sequence[Ratio]) -> Ratio:
        """The mean over cells."""
        parts: dict[int, float] = {}
        for ratio in ratios:
            for seed, part in ratio.parts.items():
                parts[seed] = parts.get(seed, 0.0) + part / len(ratios)
        return cls(sum(ratio.value for ratio in ratios) / len(ratios), parts, len(ratios))

    @property
    def estimate(self) -> Estimate:
        return Estimate(self.value, sqrt(sum(d * d for d in self.parts.values())), self.count)


@dataclass(frozen=True)
class Panel:
    """The cells and the policies of a panel."""

    base: Config
    cells: tuple[Cell, ...]
    contenders: tuple[Contender, ...]
    first_seed: int

    def tasks(self) -> Iterator[Task]:
        for cell in self.cells:
            yield from self._oracles(cell)
            yield from self._variations(cell)
            for contender in self.contenders:
                yield from self._plays(cell, contender)

    def measure(self, results: Results) -> Outcome:
        outcome = Outcome()
        ratios: dict[tuple[str, str], list[tuple[str, Ratio]]] = {}
        for cell in self.cells:
            budgets = [results[task]["budget"][0] / cell.slots for task in self._variations(cell)]
            label = (cell.group, cell.name)
            point = ("V_T/T", float(np.mean(budgets)))
            measured = {
                contender.label: self._measured(results, cell, contender)
                for contender in self.contenders
            }
            for name, columns in measured.items():
                for quantity, values in columns.items():
                    outcome.add([Row(*label, name, *point, quantity, estimate(values))])
                    reference = measured[REFERENCE][quantity]
                    ratio = Ratio.of(self._seeds(cell), values, reference)
                    if ratio is not None:
                        row = Row(*label, name, *point, f"{quantity} ratio", ratio.estimate)
                        outcome.add([row])
                        ratios.setdefault((name, quantity), []).append((cell.group, ratio))
        for (name, quantity), found in ratios.items():
            outcome.add(_averages(name, quantity, found))
        outcome.notes |= {
            f"policy {contender.label}": " ".join((contender.policy, *contender.assignments))
            for contender in self.contenders
        }
        outcome.notes["first seed"] = self.first_seed
        return outcome

    def _measured(self, results: Results, cell: Cell, contender: Contender) -> dict[str, Array]:
        """Regret per slot (eq. regret) and travel of each realization."""
        plays = [results[play] for play in self._plays(cell, contender)]
        optimum = np.array([results[oracle]["value"] for oracle in self._oracles(cell)])
        reward = np.array([play["reward"] for play in plays])
        travel = np.array([play["travel"] for play in plays], dtype=np.float64)
        cost = self._config(cell, self.first_seed).reward.movement_cost
        return {"regret": (optimum - reward + cost * travel) / cell.slots, "travel": travel}

    def _seeds(self, cell: Cell) -> range:
        return range(self.first_seed, self.first_seed + cell.realizations)

    def _config(self, cell: Cell, seed: int) -> Config:
        return cell.config(self.base, seed)

    def _plays(self, cell: Cell, contender: Contender) -> list[PanelPlay]:
        seeds = self._seeds(cell)
        believed = self._config(cell, seeds[0]).replace(**cell.beliefs)
        config = contender.config(believed)
        return [
            PanelPlay(config.replace(run__seed=seed), cell.disturbance, source=cell.world)
            for seed in seeds
        ]

    def _oracles(self, cell: Cell) -> list[Oracle]:
        return [Oracle(self._config(cell, seed), source=cell.world) for seed in self._seeds(cell)]

    def _variations(self, cell: Cell) -> list[Variation]:
        return [
            Variation(self._config(cell, seed), (cell.slots,), source=cell.world)
            for seed in self._seeds(cell)
        ]


def _averages(name: str, quantity: str, found: list[tuple[str, Ratio]]) -> Iterable[Row]:
    """The average over each group, and over the panel's own groups."""
    groups = list(dict.fromkeys(group for group, _ in found))
    members = {group: [ratio for own, ratio in found if own == group] for group in groups}
    total = [ratio for own, ratio in found if own in AVERAGED]
    if total:
        members[TOTAL] = total
    for group, ratios in members.items():
        average = Ratio.average(ratios).estimate
        yield Row(AVERAGE, group, name, "cells", len(ratios), f"{quantity} ratio", average)
