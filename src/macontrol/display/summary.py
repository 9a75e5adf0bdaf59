"""The summary of a run, as data and as a table."""

from __future__ import annotations

from dataclasses import asdict
from math import isfinite
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from macontrol.controller.policies.theory import Verdict
from macontrol.controller.recording.tally import Percentiles, Tally
from macontrol.standard_streams import PLAIN_WORDS, print_plain


def summarise(tally: Tally, theory: dict[str, Verdict]) -> dict[str, Any]:
    """The outcome of a run as plain data; positions in wavelengths, times in seconds."""
    return {
        "slots": tally.slots,
        "reward_per_slot": _number(tally.mean_reward),
        "travel": tally.travel,
        "switches": tally.switches,
        "transit_share": tally.transit / max(tally.slots, 1),
        "transmission_share": tally.share_sum / max(tally.slots, 1),
        "late_arrivals": tally.late_arrivals,
        "late_rewards": tally.late_rewards,
        "late_decisions": tally.late_decisions,
        "missed_slots": tally.missed,
        "invalid_measurements": tally.invalid,
        "stage_faults": tally.stage_faults,
        "probe_faults": tally.probe_faults,
        "refused_commands": tally.refused,
        "wake_s": _percentiles(tally.wake),
        "actuate_s": _percentiles(tally.actuate),
        "measure_s": _percentiles(tally.measure),
        "decide_s": _percentiles(tally.decide),
        "theory": {name: asdict(verdict) for name, verdict in theory.items()},
    }


def print_summary(console: Console, summary: dict[str, Any]) -> None:
    """Print the outcome as a table."""
    rows = [
        ("reward per slot", _shown(summary["reward_per_slot"])),
        ("of a fixed antenna", _shown(summary.get("fixed_antenna_reward"))),
        ("gain over it", _shown(summary.get("gain_over_fixed"), "+.1%")),
        ("regret per slot", _shown(summary.get("regret_per_slot"))),
        ("travel", f"{summary['travel']:.2f} wavelengths"),
        ("target switches", str(summary["switches"])),
        ("share of slots in transit", f"{summary['transit_share']:.1%}"),
        ("share of time transmitting", f"{summary['transmission_share']:.1%}"),
        ("late arrivals, decisions", _joined(summary, "late_arrivals", "late_decisions")),
        ("late rewards", str(summary["late_rewards"] or "")),
        ("slots missed", _missed(summary)),
        ("invalid measurements", str(summary["invalid_measurements"])),
        ("commands refused", str(summary["refused_commands"] or "")),
        ("faults of stage, of probe", _joined(summary, "stage_faults", "probe_faults")),
        ("wake-up p50 / p99 / p99.9", _times(summary["wake_s"])),
        ("decide p50 / p99 / p99.9", _times(summary["decide_s"])),
    ]
    for verdict in summary["theory"].values():
        if verdict["holds"] is not None:
            outcome = "holds" if verdict["holds"] else "VIOLATED"
            bounded = f"{verdict['value']:.4g} ≤ {verdict['bound']:.4g}: {outcome}"
            rows.append((verdict["statement"], bounded))
    rows += [
        ("faults injected", _counts(summary.get("faults_injected"))),
        ("events", _counts(summary.get("events"))),
        ("records lost", str(summary.get("records_lost") or "")),
        ("traffic log entries lost", str(summary.get("traffic_lost") or "")),
    ]
    table = Table(title=f"{summary['slots']} slots", show_header=False)
    table.add_column()
    table.add_column(overflow="fold")
    for name, value in rows:
        if value:
            table.add_row(Text(_plain(name, console)), Text(_plain(value, console)))
    console.print(table)
    # The log has warned at the start; at the end only a run that missed slots needs the remedy.
    lines = list(summary.get("realtime", {}).get("notice", ())) if summary["missed_slots"] else []
    if summary.get("run_file"):
        lines.append(f"run file: {summary['run_file']}")
    for line in lines:  # unbroken, to be copied
        print_plain(console, line)


def _plain(text: str, console: Console) -> str:
    """The text as this console shows it: a word for a character has another width."""
    return text.encode(console.encoding, PLAIN_WORDS).decode(console.encoding)


def _missed(summary: dict[str, Any]) -> str:
    missed, run = summary["missed_slots"], summary["slots"]
    return f"{missed} ({missed / (missed + run):.1%})" if missed else "0"


def _counts(counts: dict[str, int] | None) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in (counts or {}).items())


def _percentiles(stream: Percentiles) -> dict[str, float | None]:
    return {
        "p50": _number(stream.at(50)),
        "p99": _number(stream.at(99)),
        "p99.9": _number(stream.at(99.9)),
        "max": stream.largest,
    }


def _number(value: float) -> float | None:
    return value if isfinite(value) else None


def _shown(value: float | None, form: str = ".4f") -> str:
    return "" if value is None else f"{value:{form}}"


def _joined(summary: dict[str, Any], *names: str) -> str:
    return ", ".join(str(summary[name]) for name in names)


def _times(percentiles: dict[str, float | None]) -> str:
    values = (percentiles["p50"], percentiles["p99"], percentiles["p99.9"])
    if not any(value is None or value > 0 for value in values):  # on a virtual clock
        return ""
    return " / ".join("–" if v is None else f"{v * 1e6:.0f} µs" for v in values)
