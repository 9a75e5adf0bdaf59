"""Compare the daemon's wake-ups with those of a cyclictest that runs at the same time.

The daemon runs on the simulated bench in slots of 5 ms; cyclictest (Debian: rt-tests) has the same
period, scheduling class and priority. The bars are for ratios, because absolute latencies mean
little on a shared machine. Run it as root, or with a real-time priority limit (ulimit -r).
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from macontrol.benchmarks.bars import Bar, exit_code, show_bars
from macontrol.benchmarks.jitter import Jitter, Latencies, measure_jitter
from macontrol.commands.shared_arguments import positive_number
from macontrol.standard_streams import is_terminal

SUMMARY = "how late the daemon wakes up, compared with cyclictest"

LATENCY_RATIO = 1.5
FEWEST_WAKE_UPS = 500
"""A p99 of fewer wake-ups could be a single one."""
DECIDE_SHARE = 0.10
RESIDENT_BYTES = 120e6
CPU_SHARE = 0.15


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seconds", type=positive_number, default=20.0, metavar="S", help="duration (default: 20)"
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
    return exit_code(bars, strict=arguments.strict)


def bars_of(jitter: Jitter) -> list[Bar]:
    """The bars, and whether they hold."""
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
        console.print("SCHED_FIFO is not permitted: the ratios are not judged. Run as root.")
    show_bars(console, bars)


def _cells(times: Latencies) -> list[str]:
    values = (times.p50, times.p99, times.p99_9, times.largest)
    return [str(times.count), *(f"{value:,.1f}" for value in values)]
