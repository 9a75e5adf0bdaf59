"""Fig. main: MoveUCB compared with the baselines, both scenarios, continuous drift."""

from __future__ import annotations

from collections.abc import Iterator

from macontrol.sim.research.campaign import Results
from macontrol.sim.research.figures.setting import BLOCKED, DENSE, POLICIES, Runs, Setting
from macontrol.sim.research.outcome import Outcome, Row, closest_lead, estimate, of_means
from macontrol.sim.research.tasks import Task

SCENARIOS = {"blocked": BLOCKED, "dense": DENSE}
QUANTITIES = ("regret", "travel", "switches", "transit_share")
MAXIMIZER_DRIFT = ("maximizer_step", "maximizer_step_without_jumps", "maximizer_jump_share")
MOVERS = ("GP-UCB", "Sweep-and-hold", "ε-greedy")


def tasks(setting: Setting) -> Iterator[Task]:
    for world in SCENARIOS.values():
        for policy in POLICIES:
            if policy != "Sweep-and-hold":
                yield from setting.runs(world, policy).tasks()
        for runs in setting.sweeps(world).values():
            yield from runs.tasks()
        yield from setting.runs(world, "Fixed").course_tasks()
        yield from setting.variations(world)


def measure(setting: Setting, results: Results) -> Outcome:
    outcome = Outcome()
    chosen = setting.sweep_period(results)
    outcome.notes["sweep_period"] = chosen
    everywhere: dict[str, dict[str, Runs]] = {}
    for name, world in SCENARIOS.items():
        sweeps = setting.sweeps(world)
        policies = {
            policy: sweeps[chosen] if policy == "Sweep-and-hold" else setting.runs(world, policy)
            for policy in POLICIES
        }
        everywhere[name] = policies
        for policy, runs in policies.items():
            outcome.add(runs.rows(results, QUANTITIES, ("a", name, policy, "", "")))
            slots, course = runs.regret_course(results)
            outcome.add(
                Row("time", name, policy, "slot", slot, "cumulative_regret", estimate(column))
                for slot, column in zip(slots, course.T, strict=True)
            )
        for period, runs in sweeps.items():
            label = ("periods", name, "Sweep-and-hold", "period", period)
            outcome.add(runs.rows(results, ("regret", "travel"), label))
        variation = [results[task] for task in setting.variations(world)]
        budget = [result["budget"][0] / setting.slots for result in variation]
        outcome.add([Row("world", name, "", "", "", "variation_per_slot", estimate(budget))])
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
    for quantity in ("variation_per_slot", "maximizer_step", "maximizer_step_without_jumps"):
        quantities[quantity.replace("_", " ")] = world[quantity]
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
        lead, closest = closest_lead(
            {
                f"{rival}, {scenario}": policies[rival].measure(results, quantity)
                - policies["MoveUCB"].measure(results, quantity)
                for scenario, policies in everywhere.items()
                for rival in rivals
            }
        )
        quantities[f"{quantity} lead"] = lead
        outcome.notes[f"{quantity} lead"] = f"closest: {closest}"
