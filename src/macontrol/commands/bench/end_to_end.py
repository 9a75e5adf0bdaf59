"""Compare `--backend serial` on the virtual bench with `--backend sim` on the same world.

For every seed a virtual bench and the daemon run in real time, with a pseudo-terminal and a socket
between them, for 2000 slots of 250 ms: nine minutes, several seeds at a time. The simulated
backend and a fixed antenna follow on the same world. Exits with 1 if a bar is missed.

Two effects are not errors of the serial path. A radio sends in blocks, so that some rewards arrive
after the next position was chosen: "lateness" is the effect of the same late rewards on simulated
runs. "by chance" is how much such runs differ if their rewards have the error of the probe, because
small errors change close decisions.
"""

from __future__ import annotations

import argparse
import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from macontrol.commands.bench.bars import Bar, exit_code, show_bars, wide_console
from macontrol.commands.bench.comparison import Comparison, compare
from macontrol.commands.shared_arguments import (
    add_config_arguments,
    choose_lab_preset,
    config_from,
    config_words,
    lab_preset,
    positive_int,
    seed_number,
)
from macontrol.config.model.errors import UsageError

SUMMARY = "the serial backend on the virtual bench, compared with the simulated one"

SLOTS = 2000
LATE_SHARE = 0.01
DIFFERENCE = 0.05
PROBE_BIAS = 0.01
ABOVE_FIXED = 1.1
_REPORT_INTERVAL_S = 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seeds", type=seed_number, nargs="+", default=[1, 2, 3, 4], metavar="N", help="(1 2 3 4)"
    )
    parser.add_argument(
        "--slots", type=positive_int, default=SLOTS, metavar="N", help=f"slots per seed ({SLOTS})"
    )
    parser.add_argument(
        "--parallel", type=positive_int, default=2, metavar="N", help="seeds at a time (2)"
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the run files there")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    add_config_arguments(parser, policy=True, preset=lab_preset())


def main(arguments: argparse.Namespace) -> int:
    seeds: list[int] = arguments.seeds
    if len(set(seeds)) < len(seeds):
        raise UsageError("--seeds: a seed is given twice", "give each seed once")
    choose_lab_preset(arguments)
    config = config_from(arguments)
    # With JSON on standard output, progress goes to standard error.
    progress = Console(stderr=arguments.json)
    meter = _Meter(progress, seeds, arguments.slots)
    with _signals_interrupt(), meter.bars:
        found = compare(
            config,
            config_words(arguments),
            seeds,
            arguments.slots,
            parallel=arguments.parallel,
            keep=arguments.keep,
            on_slot=meter.at,
        )
    bars = bars_of(found)
    if arguments.json:
        print(json.dumps(as_json(found, bars), indent=2))
    else:
        title = f"{config.algorithm.policy}, {arguments.preset or arguments.config}, "
        title += f"T_s = {config.physical.slot_duration_s * 1e3:g} ms"
        _show(wide_console(), title, found, bars)
    return exit_code(bars)


def bars_of(found: list[Comparison]) -> list[Bar]:
    """The bars, and whether they hold."""
    late = max(one.late_share for one in found)
    serial, sim, fixed = (
        float(np.mean([getattr(one, name) for one in found])) for name in ("serial", "sim", "fixed")
    )
    bias = max(abs(one.probe_bias) for one in found)
    return [
        Bar(f"late slots at most {LATE_SHARE:.0%}, every seed", f"{late:.2%}", late <= LATE_SHARE),
        Bar(
            f"mean reward within {DIFFERENCE:.0%} of the simulated backend's",
            f"{serial / sim - 1:+.1%}",
            abs(serial / sim - 1) <= DIFFERENCE,
        ),
        Bar(
            f"and at least {ABOVE_FIXED - 1:.0%} above the fixed antenna's",
            f"{serial / fixed - 1:+.1%}",
            serial >= ABOVE_FIXED * fixed,
        ),
        Bar(
            f"measured rewards within {PROBE_BIAS:.0%} of the world's, every seed",
            f"{bias:.2%}",
            bias <= PROBE_BIAS,
        ),
    ]


def as_json(found: list[Comparison], bars: list[Bar]) -> dict[str, Any]:
    return {
        "seeds": [
            {**asdict(one), "late_share": one.late_share, "difference": one.difference}
            for one in found
        ],
        "bars": [asdict(bar) for bar in bars],
    }


def _show(console: Console, title: str, found: list[Comparison], bars: list[Bar]) -> None:
    table = Table(title=title, title_justify="left")
    names = ("seed", "slots", "late", "late rewards", "faults", "serial", "sim", "fixed")
    for name in (*names, "difference", "lateness", "by chance", "probe"):
        table.add_column(name, justify="right")
    for one in found:
        table.add_row(str(one.seed), str(one.slots), *_cells(one))
    console.print(table)
    if any(one.slots < SLOTS for one in found):
        console.print(f"The bars are set for {SLOTS} slots: fewer may miss them by chance.")
    show_bars(console, bars)


def _cells(one: Comparison) -> list[str]:
    rewards = [f"{value:.3f}" for value in (one.serial, one.sim, one.fixed)]
    shares = [f"{one.difference:+.1%}", f"{one.lateness:+.1%}", f"± {one.chance:.1%}"]
    shares.append(f"{one.probe_bias:+.2%}")
    late = [f"{one.late_share:.2%}", f"{one.late_rewards / max(one.slots, 1):.1%}"]
    return [*late, str(one.faults), *rewards, *shares]


@contextmanager
def _signals_interrupt() -> Iterator[None]:
    """Turn every stop signal into a KeyboardInterrupt, so that the children end too."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    for number in numbers:
        if before[number] is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Meter:
    """The progress of every seed: a bar on a terminal, a line per minute elsewhere."""

    def __init__(self, console: Console, seeds: list[int], slots: int) -> None:
        self._console = console
        self._slots = dict.fromkeys(seeds, 0)
        self._wanted = slots * len(seeds)
        self._reported_s = time.monotonic()
        self.bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("slots,"),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._ids = {seed: self.bars.add_task(f"seed {seed}", total=slots) for seed in seeds}

    def at(self, seed: int, slot: int) -> None:
        self._slots[seed] = slot
        self.bars.update(self._ids[seed], completed=slot)
        is_due = time.monotonic() - self._reported_s > _REPORT_INTERVAL_S
        if not self._console.is_terminal and is_due:
            self._reported_s = time.monotonic()
            done = sum(self._slots.values())
            self._console.print(f"{done}/{self._wanted} slots", highlight=False)
