"""Fig. main: MoveUCB compared with the baselines, both scenarios, continuous drift."""

from __future__ import annotations

from collections.abc import Iterator

from macontrol.sim.research.figures.outcome import Outcome, Row
from macontrol.sim.research.figures.setting import (
    BLOCKED,
    DENSE,
    POLICIES,
    SWEEP_PERIODS,
    Runs,
    Setting,
    Sweeps,
    World,
)
from macontrol.sim.research.statistics import estimate, of_means
from macontrol.sim.research.store import Results
from macontrol.sim.research.tasks import Task, Variation

TITLE = "comparison against the baselines"
SCENARIOS = {"blocked": BLOCKED, "dense": DENSE}
QUANTITIES = ("regret", "travel", "switches", "transit_share")
MAXIMIZER_DRIFT = ("maximizer_step", "maximizer_step_without_jumps", "maximizer_jump_share")
MOVERS = ("GP-UCB", "Sweep-and-hold", "ε-greedy")


def tasks(setting: Setting) -> Iterator[Task]:
    sweeps = Sweeps(setting)
    for world in SCENARIOS.values():
        for policy in POLICIES:
            if policy != "Sweep-and-hold":
                yield from setting.runs(world, policy).tasks()
        for runs in sweeps.at_every_period(world):
            yield from runs.tasks()
        yield from setting.runs(world, "Fixed").course_tasks()
        yield from _variations(setting, world)


def measure(setting: Setting, results: Results) -> Outcome:
    outcome = Outcome()
    sweeps = Sweeps(setting)
    outcome.notes["sweep_period"] = sweeps.chosen_period(results)
    everywhere: dict[str, dict[str, Runs]] = {}
    for name, world in SCENARIOS.items():
        policies = {
            policy: sweeps.chosen(results, world)
            if policy == "Sweep-and-hold"
            else setting.runs(world, policy)
            for policy in POLICIES
        }
        everywhere[name] = policies
        for policy, runs in policies.items():
            outcome.add(
                Row("a", name, policy, "", "", quantity, runs.estimate(results, quantity))
                for quantity in QUANTITIES
            )
            slots, course = runs.regret_course(results)
            outcome.add(
                Row("time", name, policy, "slot", slot, "cumulative_regret", estimate(column))
                for slot, column in zip(slots, course.T, strict=True)
            )
        for period, runs in zip(SWEEP_PERIODS, sweeps.at_every_period(world), strict=True):
            outcome.add(
                Row("periods", name, "Sweep-and-hold", "period", period, quantity, measured)
                for quantity in ("regret", "travel")
                for measured in [runs.estimate(results, quantity)]
            )
        variation = [results[task] for task in _variations(setting, world)]
        budget = estimate([result["budget"][0] / setting.slots for result in variation])
        outcome.add([Row("world", name, "", "", "", "variation_per_slot", budget)])
        outcome.add(
            Row("world", name, "", "", "", drift, estimate([result[drift] for result in variation]))
            for drift in MAXIMIZER_DRIFT
        )
    _add_quantities(outcome, results, everywhere)
    return outcome


def _add_quantities(
    outcome: Outcome, results: Results, everywhere: dict[str, dict[str, Runs]]
) -> None:
    moveucb, gp_ucb = everywhere["blocked"]["MoveUCB"], everywhere["blocked"]["GP-UCB"]
    quantities = outcome.quantities
    world = {
        row.quantity: row.estimate
        for row in outcome.rows
        if (row.panel, row.scenario) == ("world", "blocked")
    }
    quantities["variation per slot"] = world["variation_per_slot"]
    quantities["maximizer step"] = world["maximizer_step"]
    quantities["maximizer step without jumps"] = world["maximizer_step_without_jumps"]
    jumps = world["maximizer_jump_share"].mean
    outcome.notes["maximizer step"] = f"it jumps farther than a stroke in {jumps:.1%} of the slots"
    for quantity in QUANTITIES:
        quantities[quantity] = moveucb.estimate(results, quantity)
    for quantity in ("regret", "travel"):
        quantities[f"GP-UCB {quantity} ratio"] = of_means(
            lambda ours, theirs: float(theirs / ours),
            moveucb.measure(results, quantity),
            gp_ucb.measure(results, quantity),
        )
    for quantity, rivals in (("regret", (*MOVERS, "Fixed")), ("travel", MOVERS)):
        leads = {
            f"{rival}, {scenario}": estimate(
                policies[rival].measure(results, quantity)
                - policies["MoveUCB"].measure(results, quantity)
            )
            for scenario, policies in everywhere.items()
            for rival in rivals
        }
        closest = min(leads, key=lambda rival: leads[rival].mean)
        quantities[f"{quantity} lead"] = leads[closest]
        outcome.notes[f"{quantity} lead"] = f"closest: {closest}"


def _variations(setting: Setting, world: World) -> list[Variation]:
    horizon = (setting.slots,)
    return [Variation(setting.world(world, seed), horizon) for seed in setting.seeds()]
