"""Fig. beta: effect of the confidence parameter β, blocked, continuous drift."""

from __future__ import annotations

from collections.abc import Iterator

from macontrol.sim.research.figures.outcome import Outcome, Row
from macontrol.sim.research.figures.setting import BLOCKED, Runs, Setting
from macontrol.sim.research.store import Results
from macontrol.sim.research.tasks import Task

TITLE = "confidence parameter"
BETAS = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0)


def tasks(setting: Setting) -> Iterator[Task]:
    for policy in ("MoveUCB", "GP-UCB"):
        for beta in BETAS:
            yield from _at(setting, policy, beta).tasks()


def measure(setting: Setting, results: Results) -> Outcome:
    outcome = Outcome()
    for policy in ("MoveUCB", "GP-UCB"):
        runs = {beta: _at(setting, policy, beta) for beta in BETAS}
        outcome.add(
            Row("a", "blocked", policy, "beta", beta, quantity, measured)
            for beta in BETAS
            for quantity in ("regret", "travel", "switches", "transit_share")
            for measured in [runs[beta].estimate(results, quantity)]
        )
        regret = {beta: runs[beta].estimate(results, "regret").mean for beta in BETAS}
        outcome.notes[f"{policy} best beta"] = min(regret, key=regret.__getitem__)
        if policy == "MoveUCB":
            outcome.quantities["transit share at beta = 5"] = runs[5.0].estimate(
                results, "transit_share"
            )
    return outcome


def _at(setting: Setting, policy: str, beta: float) -> Runs:
    return setting.runs(BLOCKED, policy, algorithm__beta=beta)
