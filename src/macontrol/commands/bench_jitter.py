"""Hold the daemon's wake-ups against those of a cyclictest that runs at the same time.

The true daemon runs on the simulated bench, in slots of 5 ms; cyclictest (Debian: rt-tests) with
the same period, scheduling class and priority. Ratios are what counts: absolute latencies on a
shared machine mean little. Run it as root, or with a limit of real-time priorities (ulimit -r).
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from macontrol.benchmarks.jitter import Jitter, Latencies, measure_jitter
from macontrol.commands.shared_arguments import positive_number
from macontrol.standard_streams import is_terminal

SUMMARY = "how late the daemon wakes up, beside cyclictest"

LATENCY_RATIO = 1.5
FEWEST_WAKE_UPS = 500
"""For a p99 that is more than one bad moment."""
DECIDE_SHARE = 0.10
RESIDENT_BYTES = 120e6
CPU_SHARE = 0.15
MISSED = 1


@dataclass(frozen=True)
class Bar:
    """A statement about the measured, and whether it holds; None if it does not apply."""

    statement: str
    measured: str
    holds: bool | None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seconds", type=positive_number, default=20.0, metavar="S", help="how long (default: 20)"
    )
    parser.add_argument(
        "--slot-ms", type=positive_number, default=5.0, metavar="T", help="T_s (default: 5)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument(
        "--strict", action="store_true", help="exit with 1 if a measured bar is missed"
    )


def main(arguments: argparse.Namespace) -> int:
    jitter = measure_jitter(arguments.seconds, arguments.slot_ms * 1e-3)
    bars = bars_of(jitter)
    if arguments.json:
        print(json.dumps(as_json(jitter, bars), indent=2, allow_nan=False))
    else:
        _show(Console(width=None if is_terminal(sys.stdout) else 110), jitter, bars)
    return MISSED if arguments.strict and any(bar.holds is False for bar in bars) else 0


def bars_of(jitter: Jitter) -> list[Bar]:
    """What should hold, and whether it does."""
    p50, p99, _ = jitter.ratios()
    enough = min(jitter.ours.count, jitter.cyclictest.count) >= FEWEST_WAKE_UPS
    bars = [
        Bar(
            f"wake-up {name} at most {LATENCY_RATIO:g} times cyclictest's",
            f"{ratio:.2f}",
            ratio <= LATENCY_RATIO if meant else None,
        )
        for name, ratio, meant in (
            ("p50", p50, jitter.fifo),
            ("p99", p99, jitter.fifo and enough),
        )
    ]
    return [
        *bars,
        Bar(
            f"decide phase p99.9 below {DECIDE_SHARE:.0%} of the slot",
            f"{jitter.decide_share:.1%}",
            jitter.decide_share < DECIDE_SHARE,
        ),
        Bar(
            f"resident memory below {RESIDENT_BYTES / 1e6:.0f} MB",
            f"{jitter.resident_bytes / 1e6:.1f} MB",
            jitter.resident_bytes < RESIDENT_BYTES,
        ),
        Bar(
            f"CPU below {CPU_SHARE:.0%} of one core",
            f"{jitter.cpu_share:.1%}",
            jitter.cpu_share < CPU_SHARE,
        ),
    ]


def as_json(jitter: Jitter, bars: list[Bar]) -> dict[str, Any]:
    return {
        "unit": "microseconds",
        **asdict(jitter),
        "ratios": dict(zip(("p50", "p99", "p99_9"), jitter.ratios(), strict=True)),
        "decide_share": jitter.decide_share,
        "bars": [asdict(bar) for bar in bars],
    }


def _show(console: Console, jitter: Jitter, bars: list[Bar]) -> None:
    scheduling = "SCHED_FIFO" if jitter.fifo else "normal scheduling"
    table = Table(
        title=f"{jitter.seconds:.0f} s of {jitter.slot_s * 1e3:g} ms slots, {scheduling} (µs)",
        title_justify="left",
    )
    table.add_column("")
    for name in ("wake-ups", "p50", "p99", "p99.9", "largest"):
        table.add_column(name, justify="right")
    table.add_row("macontrol", *_cells(jitter.ours))
    table.add_row("cyclictest", *_cells(jitter.cyclictest))
    table.add_row("ratio", "", *(f"{ratio:.2f}" for ratio in jitter.ratios()), "")
    table.add_row("decide phase", *_cells(jitter.decide))
    console.print(table)
    console.print(f"{jitter.missed} slots missed.", highlight=False)
    if not jitter.fifo:
        console.print("SCHED_FIFO is not permitted here, so the ratios say nothing: run as root.")
    told = {True: "[green]holds[/]", False: "[bold red]MISSED[/]", None: "[dim]not measured[/]"}
    verdicts = Table(show_header=False, title="Bars", title_justify="left")
    for bar in bars:
        verdicts.add_row(bar.statement, bar.measured, told[bar.holds])
    console.print(verdicts)


def _cells(times: Latencies) -> list[str]:
    values = (times.p50, times.p99, times.p99_9, times.largest)
    return [str(times.count), *(f"{value:,.1f}" for value in values)]
