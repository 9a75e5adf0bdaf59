"""Fig. vt: (a) growth of the variation budget with the horizon, (b) its effect, blocked."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, sqrt

import numpy as np

from macontrol.sim.research.campaign import Results
from macontrol.sim.research.figures.setting import BLOCKED, Setting, World
from macontrol.sim.research.outcome import Array, Outcome, Row, closest_lead, estimate, of_means
from macontrol.sim.research.tasks import Task, Variation

CHANGE_POINTS = (5, 15, 50, 100, 300)
SWEEP_REALIZATIONS = 8
"""The largest number of realizations for panel (b)."""
HALVINGS = 4
"""Panel (a) goes from T/2^HALVINGS to T in steps of √2."""


def horizons(setting: Setting) -> list[int]:
    """The horizons of panel (a) in rising order."""
    return [round(setting.slots / sqrt(2) ** n) for n in range(2 * HALVINGS, -1, -1)]


def exponent(at: list[int], budgets: Array) -> float:
    """The slope of log V_T on log T: the growth exponent of fig. vt(a)."""
    return float(np.polyfit(np.log(at), np.log(budgets), 1)[0])


def tasks(setting: Setting) -> Iterator[Task]:
    yield from _continuous(setting)
    for horizon in horizons(setting):
        yield from _piecewise(setting, horizon)
    for runs in setting.sweeps(BLOCKED).values():
        yield from runs.tasks()
    seeds = setting.seeds(SWEEP_REALIZATIONS)
    for world in _changing(setting).values():
        for policy in ("MoveUCB", "GP-UCB"):
            yield from setting.runs(world, policy, seeds=seeds).tasks()
        for runs in setting.sweeps(world, seeds).values():
            yield from runs.tasks()
        yield from setting.variations(world, SWEEP_REALIZATIONS)


def measure(setting: Setting, results: Results) -> Outcome:
    outcome = Outcome()
    _measure_growth(setting, results, outcome)
    _measure_sweep(setting, results, outcome)
    return outcome


def _measure_growth(setting: Setting, results: Results, outcome: Outcome) -> None:
    at = horizons(setting)
    continuous = np.array([results[task]["budget"] for task in _continuous(setting)])
    piecewise = np.array(
        [[results[task]["budget"][0] for task in _piecewise(setting, horizon)] for horizon in at]
    ).T
    for name, budgets in (("continuous", continuous), ("piecewise", piecewise)):
        outcome.add(
            Row("a", "blocked", name, "T", horizon, "variation_budget", estimate(column))
            for horizon, column in zip(at, budgets.T, strict=True)
        )
        outcome.quantities[f"{name} exponent"] = of_means(
            lambda mean_budgets: exponent(at, mean_budgets), budgets
        )


def _measure_sweep(setting: Setting, results: Results, outcome: Outcome) -> None:
    period, seeds = setting.sweep_period(results), setting.seeds(SWEEP_REALIZATIONS)
    outcome.notes["sweep_period"] = period
    upper = {}
    for count, world in _changing(setting).items():
        policies = {
            "MoveUCB": setting.runs(world, "MoveUCB", seeds=seeds),
            "GP-UCB": setting.runs(world, "GP-UCB", seeds=seeds),
            "Sweep-and-hold": setting.sweeps(world, seeds)[period],
        }
        for policy, runs in policies.items():
            label = ("b", "blocked", policy, "S", count)
            outcome.add(runs.rows(results, ("regret", "travel", "switches"), label))
        variations = setting.variations(world, SWEEP_REALIZATIONS)
        budget = [results[task]["budget"][0] / setting.slots for task in variations]
        outcome.add([Row("b", "blocked", "", "S", count, "variation_per_slot", estimate(budget))])
        regret = {policy: runs.measure(results, "regret") for policy, runs in policies.items()}
        ours = regret.pop("MoveUCB")
        lead, closest = closest_lead({rival: theirs - ours for rival, theirs in regret.items()})
        outcome.quantities[f"lead at S = {count}"] = lead
        outcome.notes[f"lead at S = {count}"] = f"closest: {closest}"
        if count >= 15:
            upper[count] = lead
    if upper:
        least = min(upper, key=lambda count: upper[count].mean)
        note = outcome.notes[f"lead at S = {least}"]
        outcome.quantities["lead from S = 15"] = upper[least]
        outcome.notes["lead from S = 15"] = f"least at S = {least}, {note}"


def _changing(setting: Setting) -> dict[int, World]:
    """The worlds of panel (b), by their S; only those that fit into the horizon."""
    counts = [count for count in CHANGE_POINTS if count < setting.slots]
    return {count: World(drift="piecewise", change_points=count) for count in counts}


def _continuous(setting: Setting) -> list[Variation]:
    at = tuple(horizons(setting))
    return [Variation(setting.world(BLOCKED, seed), at) for seed in setting.seeds()]


def _piecewise(setting: Setting, horizon: int) -> list[Variation]:
    world = World(drift="piecewise", change_points=ceil(sqrt(horizon)))
    return [
        Variation(setting.world(world, seed, slots=horizon), (horizon,)) for seed in setting.seeds()
    ]
