"""The result of a trial as plain data and as tables."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from macontrol.config import Config
from macontrol.trial.outcome import CONFIDENCE, METHOD, Outcome


def as_json(outcome: Outcome, config: Config, failure: str | None) -> dict[str, Any]:
    """The result as plain data."""
    plan, slot_s = outcome.plan, config.physical.slot_duration_s
    return {
        "policies": [asdict(one) for one in outcome.policies],
        "differences": [
            {**asdict(one), "low": one.low, "high": one.high, "verdict": one.verdict}
            for one in outcome.differences
        ],
        "confidence": CONFIDENCE,
        "method": METHOD,
        "unit": "bit/s/Hz",
        "rounds_planned": len(plan.order),
        "rounds_counted": list(outcome.rounds),
        "seed": plan.seed,
        "order": [[plan.labels[one] for one in turn] for turn in plan.order],
        "block_s": plan.slots * slot_s,
        "settling_s": plan.settling * slot_s,
        "failure": failure,
        "blocks": [asdict(one) for one in outcome.blocks],
    }


def print_tables(console: Console, outcome: Outcome, config: Config) -> None:
    plan, slot_s = outcome.plan, config.physical.slot_duration_s
    counted, first = len(outcome.rounds), plan.labels[0]
    table = Table(
        title=f"{counted} of {len(plan.order)} rounds, blocks of {plan.slots * slot_s:g} s, the "
        f"first {plan.settling * slot_s:g} s of each not counted; order of seed {plan.seed}",
        title_justify="left",
    )
    for head in ("policy", "reward", f"more than {first}", "", "travel", "rewarded slots"):
        table.add_column(head, justify="left" if head in ("policy", "") else "right")
    differences = {one.policy: one for one in outcome.differences}
    for one in outcome.policies:
        against = differences.get(one.policy)
        shown, verdict = "", ""
        if against is not None:
            width = "" if against.half_width is None else f" ± {against.half_width:.4f}"
            shown, verdict = f"{against.mean:+.4f}{width}", against.verdict
        table.add_row(
            one.policy,
            "–" if one.reward is None else f"{one.reward:.4f}",
            shown,
            verdict,
            f"{one.travel_mm / 1e3:.3f} m",
            "–" if one.rewarded_share is None else f"{one.rewarded_share:.2%}",
        )
    console.print(table)
    console.print(f"Rewards in bit/s/Hz; {METHOD}.", highlight=False)
