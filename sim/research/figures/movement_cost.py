"""Fig. ce: sensitivity to the movement cost coefficient c_e, blocked, continuous drift.

Only MoveUCB depends on c_e. The others are run once and pay each c_e for the same travel.
"""

from __future__ import annotations

from collections.abc import Iterator

from macontrol.sim.research.figures.outcome import Outcome, Row
from macontrol.sim.research.figures.setting import BLOCKED, POLICIES, Runs, Setting, Sweeps
from macontrol.sim.research.statistics import estimate
from macontrol.sim.research.store import Results
from macontrol.sim.research.tasks import Task

TITLE = "sensitivity to the movement cost"
MOVEMENT_COSTS = (0.3, 1.0, 3.0, 10.0, 30.0, 66.0)
BASELINES = ("GP-UCB", "ε-greedy", "Fixed")


def moveucb_at(setting: Setting, movement_cost: float) -> Runs:
    """MoveUCB with a movement cost."""
    return setting.runs(BLOCKED, "MoveUCB", reward__movement_cost=movement_cost)


def tasks(setting: Setting) -> Iterator[Task]:
    for cost in MOVEMENT_COSTS:
        yield from moveucb_at(setting, cost).tasks(cost)
    for policy in BASELINES:
        yield from setting.runs(BLOCKED, policy).tasks()
    yield from Sweeps(setting).tasks()


def measure(setting: Setting, results: Results) -> Outcome:
    outcome = Outcome()
    sweeps = Sweeps(setting)
    outcome.notes["sweep_period"] = sweeps.chosen_period(results)
    unaware = {policy: setting.runs(BLOCKED, policy) for policy in BASELINES}
    unaware["Sweep-and-hold"] = sweeps.chosen(results, BLOCKED)
    for cost in MOVEMENT_COSTS:
        policies = {"MoveUCB": moveucb_at(setting, cost), **unaware}
        for policy in POLICIES:
            outcome.add(
                Row("a", "blocked", policy, "c_e", cost, quantity, measured)
                for quantity in ("regret", "travel", "switches")
                for measured in [policies[policy].estimate(results, quantity, cost)]
            )
        leads = {
            rival: estimate(
                runs.measure(results, "regret", cost)
                - policies["MoveUCB"].measure(results, "regret", cost)
            )
            for rival, runs in unaware.items()
            if rival != "Fixed"
        }
        closest = min(leads, key=lambda rival: leads[rival].mean)
        outcome.add([Row("a", "blocked", "lead", "c_e", cost, "regret", leads[closest])])
        outcome.quantities[f"lead at c_e = {cost:g}"] = leads[closest]
        outcome.notes[f"lead at c_e = {cost:g}"] = f"closest: {closest}"
        outcome.quantities[f"travel at c_e = {cost:g}"] = policies["MoveUCB"].estimate(
            results, "travel"
        )
    return outcome
