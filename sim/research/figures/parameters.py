"""Figs. ce, beta and ablation: one parameter is varied, in the blocked scenario.

Fig. ablation varies the weight η in (a) and the margin Δ in (b); (c) and (d) go from GP-UCB's rule
to MoveUCB in steps, at two movement costs. All steps use MoveUCB's β.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from macontrol.sim.research.campaign import Results
from macontrol.sim.research.figures.setting import BLOCKED, POLICIES, Runs, Setting
from macontrol.sim.research.outcome import Outcome, Row, closest_lead, estimate, of_means
from macontrol.sim.research.tasks import Task

MOVEMENT_COSTS = (0.3, 1.0, 3.0, 10.0, 30.0, 66.0)
BASELINES = ("GP-UCB", "ε-greedy", "Fixed")
BETAS = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0)
ETAS = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
MARGINS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
LADDER_COSTS = (0.3, 30.0)
LADDER: dict[str, dict[str, Any]] = {
    "(i)": {
        "algorithm__search": "local",
        "algorithm__use_movement_cost": False,
        "algorithm__use_persistence": False,
    },
    "(ii)": {"algorithm__use_movement_cost": False, "algorithm__use_persistence": False},
    "(iii)": {"algorithm__use_persistence": False},
    "(iv)": {},
}
"""(i) local, (ii) global, (iii) global + cost, (iv) global + cost + persistence."""
QUANTITIES = ("regret", "travel", "switches")


def movement_cost_tasks(setting: Setting) -> Iterator[Task]:
    """Fig. ce: sensitivity to the movement cost coefficient c_e.

    Only MoveUCB depends on c_e. The others are run once and pay each c_e for the same travel.
    """
    for cost in MOVEMENT_COSTS:
        yield from _moveucb(setting, reward__movement_cost=cost).tasks(cost)
    for policy in BASELINES:
        yield from setting.runs(BLOCKED, policy).tasks()
    for runs in setting.sweeps(BLOCKED).values():
        yield from runs.tasks()


def measure_movement_cost(setting: Setting, results: Results) -> Outcome:
    outcome = Outcome()
    period = setting.sweep_period(results)
    outcome.notes["sweep_period"] = period
    unaware = {policy: setting.runs(BLOCKED, policy) for policy in BASELINES}
    unaware["Sweep-and-hold"] = setting.sweeps(BLOCKED)[period]
    for cost in MOVEMENT_COSTS:
        moveucb = _moveucb(setting, reward__movement_cost=cost)
        policies = {"MoveUCB": moveucb, **unaware}
        for policy in POLICIES:
            label = ("a", "blocked", policy, "c_e", cost)
            outcome.add(policies[policy].rows(results, QUANTITIES, label, cost))
        ours = moveucb.measure(results, "regret", cost)
        lead, closest = closest_lead(
            {
                rival: runs.measure(results, "regret", cost) - ours
                for rival, runs in unaware.items()
                if rival != "Fixed"
            }
        )
        outcome.add([Row("a", "blocked", "lead", "c_e", cost, "regret", lead)])
        outcome.quantities[f"lead at c_e = {cost:g}"] = lead
        outcome.notes[f"lead at c_e = {cost:g}"] = f"closest: {closest}"
        outcome.quantities[f"travel at c_e = {cost:g}"] = moveucb.estimate(results, "travel")
    return outcome


def confidence_tasks(setting: Setting) -> Iterator[Task]:
    """Fig. beta: effect of the confidence parameter β."""
    for policy in ("MoveUCB", "GP-UCB"):
        for beta in BETAS:
            yield from setting.runs(BLOCKED, policy, algorithm__beta=beta).tasks()


def measure_confidence(setting: Setting, results: Results) -> Outcome:
    outcome = Outcome()
    for policy in ("MoveUCB", "GP-UCB"):
        regret = {}
        for beta in BETAS:
            runs = setting.runs(BLOCKED, policy, algorithm__beta=beta)
            label = ("a", "blocked", policy, "beta", beta)
            outcome.add(runs.rows(results, (*QUANTITIES, "transit_share"), label))
            regret[beta] = runs.estimate(results, "regret").mean
        outcome.notes[f"{policy} best beta"] = min(regret, key=regret.__getitem__)
    share = _moveucb(setting, algorithm__beta=5.0).estimate(results, "transit_share")
    outcome.quantities["transit share at beta = 5"] = share
    return outcome


def ablation_tasks(setting: Setting) -> Iterator[Task]:
    """Fig. ablation: the movement-aware components one by one."""
    for eta in ETAS:
        yield from _moveucb(setting, algorithm__eta=eta).tasks()
    for margin in MARGINS:
        yield from _moveucb(setting, algorithm__margin=margin).tasks()
    for rung in LADDER:
        for cost in LADDER_COSTS:
            yield from _rung(setting, rung, cost).tasks(cost)


def measure_ablation(setting: Setting, results: Results) -> Outcome:
    outcome = Outcome()
    for panel, parameter, values in (("a", "eta", ETAS), ("b", "margin", MARGINS)):
        for value in values:
            runs = _moveucb(setting, **{f"algorithm__{parameter}": value})
            label = (panel, "blocked", "MoveUCB", parameter, value)
            outcome.add(runs.rows(results, QUANTITIES, label))
    for rung in LADDER:
        # A local search has no persistent target, and so no switches.
        quantities = QUANTITIES[:-1] if rung == "(i)" else QUANTITIES
        for cost in LADDER_COSTS:
            step = ("c", "blocked", f"c_e = {cost:g}", "rung", rung)
            outcome.add(_rung(setting, rung, cost).rows(results, quantities, step, cost))
    _add_ablation_quantities(setting, results, outcome)
    return outcome


def _add_ablation_quantities(setting: Setting, results: Results, outcome: Outcome) -> None:
    quantities = outcome.quantities
    base = setting.base.reward.movement_cost
    for rung in ("(ii)", "(iii)"):
        quantities[f"{rung} switches"] = _rung(setting, rung, base).estimate(results, "switches")
    widest = _moveucb(setting, algorithm__margin=MARGINS[-1])
    adopted = _moveucb(setting, algorithm__margin=0.1)
    quantities["switches at widest margin"] = widest.estimate(results, "switches")
    quantities["regret higher at widest margin"] = estimate(
        (widest.measure(results, "regret") > adopted.measure(results, "regret")).astype(float)
    )
    quantities["travel saved"] = of_means(
        lambda free, priced: float(1 - priced / free),
        _moveucb(setting, algorithm__eta=0.0).measure(results, "travel"),
        _moveucb(setting, algorithm__eta=2.0).measure(results, "travel"),
    )
    for cost in LADDER_COSTS:
        quantities[f"cost term's regret drop at c_e = {cost:g}"] = estimate(
            _rung(setting, "(ii)", cost).measure(results, "regret", cost)
            - _rung(setting, "(iii)", cost).measure(results, "regret", cost)
        )


def _moveucb(setting: Setting, **changes: Any) -> Runs:
    return setting.runs(BLOCKED, "MoveUCB", **changes)


def _rung(setting: Setting, rung: str, movement_cost: float) -> Runs:
    """One step of the ladder. The first two do not use c_e."""
    changes = dict(LADDER[rung])
    if rung in ("(iii)", "(iv)"):
        changes["reward__movement_cost"] = movement_cost
    return _moveucb(setting, **changes)
