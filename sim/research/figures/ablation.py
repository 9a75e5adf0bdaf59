"""Fig. ablation: the movement-aware components one by one, blocked, continuous drift.

(a) varies the weight η, (b) the margin Δ; (c) and (d) go from GP-UCB's rule to MoveUCB in steps,
at two movement costs. All steps use MoveUCB's β.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from macontrol.sim.research.figures.outcome import Outcome, Row
from macontrol.sim.research.figures.setting import BLOCKED, Runs, Setting
from macontrol.sim.research.statistics import estimate, of_means
from macontrol.sim.research.store import Results
from macontrol.sim.research.tasks import Task

TITLE = "ablation"
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


def tasks(setting: Setting) -> Iterator[Task]:
    for eta in ETAS:
        yield from _at_eta(setting, eta).tasks()
    for margin in MARGINS:
        yield from _at_margin(setting, margin).tasks()
    for rung in LADDER:
        for cost in LADDER_COSTS:
            yield from _rung(setting, rung, cost).tasks(cost)


def measure(setting: Setting, results: Results) -> Outcome:
    outcome = Outcome()
    sweeps = (
        ("a", "eta", {eta: _at_eta(setting, eta) for eta in ETAS}),
        ("b", "margin", {margin: _at_margin(setting, margin) for margin in MARGINS}),
    )
    for panel, parameter, runs_at in sweeps:
        outcome.add(
            Row(panel, "blocked", "MoveUCB", parameter, value, quantity, measured)
            for value, runs in runs_at.items()
            for quantity in ("regret", "travel", "switches")
            for measured in [runs.estimate(results, quantity)]
        )
    for rung in LADDER:
        for cost in LADDER_COSTS:
            runs = _rung(setting, rung, cost)
            outcome.add(
                Row("c", "blocked", f"c_e = {cost:g}", "rung", rung, quantity, measured)
                for quantity in ("regret", "travel", "switches")
                # A local search has no persistent target, and so no switches.
                if not (rung == "(i)" and quantity == "switches")
                for measured in [runs.estimate(results, quantity, cost)]
            )
    _add_quantities(setting, results, outcome)
    return outcome


def _add_quantities(setting: Setting, results: Results, outcome: Outcome) -> None:
    quantities = outcome.quantities
    base = setting.base.reward.movement_cost
    for rung in ("(ii)", "(iii)"):
        quantities[f"{rung} switches"] = _rung(setting, rung, base).estimate(results, "switches")
    widest, adopted = _at_margin(setting, MARGINS[-1]), _at_margin(setting, 0.1)
    quantities["switches at widest margin"] = widest.estimate(results, "switches")
    quantities["regret higher at widest margin"] = estimate(
        (widest.measure(results, "regret") > adopted.measure(results, "regret")).astype(float)
    )
    quantities["travel saved"] = of_means(
        lambda free, priced: float(1 - priced / free),
        _at_eta(setting, 0.0).measure(results, "travel"),
        _at_eta(setting, 2.0).measure(results, "travel"),
    )
    for cost in LADDER_COSTS:
        quantities[f"cost term's regret drop at c_e = {cost:g}"] = estimate(
            _rung(setting, "(ii)", cost).measure(results, "regret", cost)
            - _rung(setting, "(iii)", cost).measure(results, "regret", cost)
        )


def _at_eta(setting: Setting, eta: float) -> Runs:
    return setting.runs(BLOCKED, "MoveUCB", algorithm__eta=eta)


def _at_margin(setting: Setting, margin: float) -> Runs:
    return setting.runs(BLOCKED, "MoveUCB", algorithm__margin=margin)


def _rung(setting: Setting, rung: str, movement_cost: float) -> Runs:
    """One step of the ladder. The first two do not use c_e."""
    changes = dict(LADDER[rung])
    if rung in ("(iii)", "(iv)"):
        changes["reward__movement_cost"] = movement_cost
    return setting.runs(BLOCKED, "MoveUCB", **changes)
