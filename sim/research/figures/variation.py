"""Fig. vt: (a) growth of the variation budget with the horizon, (b) its effect, blocked."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, sqrt

import numpy as np

from macontrol.sim.research.figures.outcome import Outcome, Row
from macontrol.sim.research.figures.setting import BLOCKED, Setting, Sweeps, World
from macontrol.sim.research.statistics import estimate, exponent, of_means
from macontrol.sim.research.store import Results
from macontrol.sim.research.tasks import Task, Variation

TITLE = "variation budget"
CHANGE_POINTS = (5, 15, 50, 100, 300)
SWEEP_REALIZATIONS = 8
"""The largest number of realizations for panel (b)."""
HALVINGS = 4
"""Panel (a) goes from T/2^HALVINGS to T in steps of √2."""


def horizons(setting: Setting) -> list[int]:
    """The horizons of panel (a) in rising order."""
    return [round(setting.slots / sqrt(2) ** n) for n in range(2 * HALVINGS, -1, -1)]


def change_points(setting: Setting) -> list[int]:
    """The S of panel (b) that fit into the horizon."""
    return [count for count in CHANGE_POINTS if count < setting.slots]


def tasks(setting: Setting) -> Iterator[Task]:
    yield from _continuous(setting)
    for horizon in horizons(setting):
        yield from _piecewise(setting, horizon)
    sweeps = Sweeps(setting)
    yield from sweeps.tasks()
    seeds = setting.seeds(SWEEP_REALIZATIONS)
    for count in change_points(setting):
        world = World(drift="piecewise", change_points=count)
        for policy in ("MoveUCB", "GP-UCB"):
            yield from setting.runs(world, policy, seeds=seeds).tasks()
        for runs in sweeps.at_every_period(world, seeds):
            yield from runs.tasks()
        yield from _budgets(setting, world)


def measure(setting: Setting, results: Results) -> Outcome:
    outcome = Outcome()
    _measure_growth(setting, results, outcome)
    _measure_sweep(setting, results, outcome)
    return outcome


def _measure_growth(setting: Setting, results: Results, outcome: Outcome) -> None:
    at = horizons(setting)
    continuous = np.array([results[task]["budget"] for task in _continuous(setting)])
    piecewise = np.array(
        [[results[task]["budget"] for task in _piecewise(setting, horizon)] for horizon in at]
    )[:, :, 0].T
    for name, budgets in (("continuous", continuous), ("piecewise", piecewise)):
        outcome.add(
            Row("a", "blocked", name, "T", horizon, "variation_budget", estimate(column))
            for horizon, column in zip(at, budgets.T, strict=True)
        )
        outcome.quantities[f"{name} exponent"] = of_means(
            lambda mean_budgets: exponent(at, mean_budgets), budgets
        )


def _measure_sweep(setting: Setting, results: Results, outcome: Outcome) -> None:
    sweeps, seeds = Sweeps(setting), setting.seeds(SWEEP_REALIZATIONS)
    outcome.notes["sweep_period"] = sweeps.chosen_period(results)
    leads = {}
    for count in change_points(setting):
        world = World(drift="piecewise", change_points=count)
        policies = {
            "MoveUCB": setting.runs(world, "MoveUCB", seeds=seeds),
            "GP-UCB": setting.runs(world, "GP-UCB", seeds=seeds),
            "Sweep-and-hold": sweeps.chosen(results, world, seeds),
        }
        for policy, runs in policies.items():
            outcome.add(
                Row("b", "blocked", policy, "S", count, quantity, measured)
                for quantity in ("regret", "travel", "switches")
                for measured in [runs.estimate(results, quantity)]
            )
        budget = [results[task]["budget"][0] / setting.slots for task in _budgets(setting, world)]
        outcome.add([Row("b", "blocked", "", "S", count, "variation_per_slot", estimate(budget))])
        regret = {policy: runs.measure(results, "regret") for policy, runs in policies.items()}
        rival = min(("GP-UCB", "Sweep-and-hold"), key=lambda policy: regret[policy].mean())
        leads[count] = (estimate(regret[rival] - regret["MoveUCB"]), f"closest: {rival}")
    for count, (lead, closest) in leads.items():
        outcome.quantities[f"lead at S = {count}"] = lead
        outcome.notes[f"lead at S = {count}"] = closest
    upper = {count: lead for count, lead in leads.items() if count >= 15}
    if upper:
        least = min(upper, key=lambda count: upper[count][0].mean)
        outcome.quantities["lead from S = 15"] = upper[least][0]
        outcome.notes["lead from S = 15"] = f"least at S = {least}, {upper[least][1]}"


def _continuous(setting: Setting) -> list[Variation]:
    at = tuple(horizons(setting))
    return [Variation(setting.world(BLOCKED, seed), at) for seed in setting.seeds()]


def _piecewise(setting: Setting, horizon: int) -> list[Variation]:
    world = World(drift="piecewise", change_points=ceil(sqrt(horizon)))
    return [
        Variation(setting.world(world, seed, slots=horizon), (horizon,)) for seed in setting.seeds()
    ]


def _budgets(setting: Setting, world: World) -> list[Variation]:
    seeds = setting.seeds(SWEEP_REALIZATIONS)
    return [Variation(setting.world(world, seed), (setting.slots,)) for seed in seeds]
