"""Compare the daemon with and without clients of its control socket, alternating in one run.

The daemon runs on the simulated bench. In every second block, clients receive snapshots, events and
the posterior as often as they can ask for them. The ratio of the latencies with clients to those
without is compared with a bar. Run it as root, or with a real-time priority limit (ulimit -r).
"""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from macontrol.commands.bench.bars import (
    Bar,
    add_output_arguments,
    finish,
    show_bars,
)
from macontrol.commands.bench.children import failed
from macontrol.commands.bench.jitter import (
    FEWEST_WAKE_UPS,
    Latencies,
    cells_of,
    fifo_is_permitted,
    latencies_of,
    running_daemon,
)
from macontrol.commands.shared_arguments import positive_int, positive_number
from macontrol.config.model.errors import MacontrolError
from macontrol.control.client import Client, open_client
from macontrol.controller.recording.runfile import Run, read_run

SUMMARY = "how much clients of the control socket delay the loop"

RATIO = 1.1
_RATE = 10.0
BLOCK_S = 2.0
# Left out at the start of each block: what the previous one has begun.
_SETTLE_S = 0.3
_END_TIMEOUT_S = 10.0
_PROGRAM = "macontrol bench"

# Each client asks for the posterior this often.
_POSTERIOR_S = 0.2

Block = tuple[float, float, bool]
"""Begin and end of a block (s), and whether clients were connected."""


class Results(Protocol):
    """A queue between processes."""

    def put(self, item: tuple[list[Block], int]) -> None:
        """Blocks, and how many updates the clients got."""


@dataclass(frozen=True)
class Effect:
    """The latencies with and without clients, in microseconds."""

    clients: int
    fifo: bool
    blocks: int
    snapshots: int
    """How many snapshots the clients got."""
    wake_with: Latencies
    wake_without: Latencies
    decide_with: Latencies
    decide_without: Latencies
    missed_with: int
    missed_without: int

    def ratios(self) -> tuple[float, float]:
        """p99 with clients divided by p99 without: of the wake-up, and of the decision."""
        return (
            self.wake_with.p99 / self.wake_without.p99,
            self.decide_with.p99 / self.decide_without.p99,
        )


def measure_effect(seconds: float, slot_s: float, clients: int) -> Effect:
    """Run the daemon, with clients in every second block."""
    with tempfile.TemporaryDirectory(prefix="macontrol-clients-") as name:
        folder = Path(name)
        with running_daemon(folder, seconds, slot_s) as daemon:
            # One process for all clients, like a dashboard; it has the same clock.
            context = get_context("spawn")
            results = context.SimpleQueue()
            arguments = f"jitter-{os.getpid()}", clients, seconds, results
            process = context.Process(target=_alternate, args=arguments)
            process.start()
            process.join()
            daemon.send_signal(signal.SIGTERM)
            output, _ = daemon.communicate(timeout=_END_TIMEOUT_S)
        if daemon.returncode != 0:
            raise failed(f"the daemon (exit code {daemon.returncode})", output)
        if process.exitcode != 0:
            raise MacontrolError("the clients failed")
        blocks, snapshots = results.get()
        return effect_of(read_run(folder / "run"), blocks, clients, snapshots)


def _alternate(name: str, clients: int, seconds: float, results: Results) -> None:
    """Alternate blocks without and with subscribed clients; pass on the blocks."""
    with ExitStack() as closing:
        watchers = [closing.enter_context(open_client(name, _PROGRAM)) for _ in range(clients)]
        blocks: list[Block] = []
        snapshots = 0
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            for is_watched in (False, True):
                begin = time.monotonic()
                for watcher in watchers:
                    rate = _RATE if is_watched else 0.0
                    watcher.call("subscribe", rate=rate, events=is_watched)
                if is_watched:
                    snapshots += _receive(watchers, begin + BLOCK_S)
                else:
                    time.sleep(BLOCK_S)
                blocks.append((begin, time.monotonic(), is_watched))
        results.put((blocks, snapshots))


def _receive(watchers: Sequence[Client], until_s: float) -> int:
    """Take what arrives until then; return the number of snapshots."""
    received = 0
    while time.monotonic() < until_s:
        for watcher in watchers:
            watcher.call("posterior")
            received += sum(method == "snapshot" for method, _ in watcher.received())
        time.sleep(_POSTERIOR_S)
    return received


def effect_of(run: Run, blocks: Sequence[Block], clients: int, snapshots: int) -> Effect:
    start, slots = run.slots["start_s"], run.slots["slot"]
    found: dict[bool, list[NDArray[np.bool_]]] = {False: [], True: []}
    missed = {False: 0, True: 0}
    for begin, end, is_watched in blocks:
        inside = (start >= begin + _SETTLE_S) & (start < end)
        found[is_watched].append(inside)
        numbers = slots[inside]
        if len(numbers):
            missed[is_watched] += int(numbers[-1] - numbers[0] + 1 - len(numbers))
    with_, without = (np.logical_or.reduce(found[is_watched]) for is_watched in (True, False))
    if not (with_.any() and without.any()):
        raise MacontrolError("the daemon ran no slot in a block")
    wake, decide = run.slots["wake_s"] * 1e6, run.slots["decide_s"] * 1e6
    return Effect(
        clients=clients,
        fifo=fifo_is_permitted(),
        blocks=len(blocks),
        snapshots=snapshots,
        wake_with=latencies_of(wake[with_]),
        wake_without=latencies_of(wake[without]),
        decide_with=latencies_of(decide[with_]),
        decide_without=latencies_of(decide[without]),
        missed_with=missed[True],
        missed_without=missed[False],
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_effect_arguments(parser, seconds=60.0, what="clients")
    add_output_arguments(parser)


def add_effect_arguments(parser: argparse.ArgumentParser, *, seconds: float, what: str) -> None:
    """--seconds, --slot-ms, and the number of clients."""
    parser.add_argument(
        "--seconds",
        type=positive_number,
        default=seconds,
        metavar="S",
        help=f"duration of the blocks (default: {seconds:g})",
    )
    parser.add_argument(
        "--slot-ms", type=positive_number, default=5.0, metavar="T", help="T_s (default: 5)"
    )
    parser.add_argument(
        f"--{what}", type=positive_int, default=3, metavar="N", help="how many (default: 3)"
    )


def main(arguments: argparse.Namespace) -> int:
    effect = measure_effect(arguments.seconds, arguments.slot_ms * 1e-3, arguments.clients)
    bars = bars_of(effect)
    ratios = dict(zip(("wake_p99", "decide_p99"), effect.ratios(), strict=True))
    data = {**asdict(effect), "ratios": ratios, "bars": [asdict(bar) for bar in bars]}
    data = {"unit": "microseconds", **data}
    return finish(arguments, data, bars, lambda console: _show(console, effect, bars))


def bars_of(effect: Effect, what: str = "clients") -> list[Bar]:
    """The bars, and whether they hold."""
    is_enough = min(effect.wake_with.count, effect.wake_without.count) >= FEWEST_WAKE_UPS
    return [
        Bar(
            f"{name} p99 with {effect.clients} {what} at most {RATIO:g} times that without",
            f"{ratio:.2f}",
            ratio <= RATIO if is_enough and effect.fifo else None,
        )
        for name, ratio in zip(("wake-up", "decide"), effect.ratios(), strict=True)
    ]


def _show(console: Console, effect: Effect, bars: list[Bar]) -> None:
    show_effect(console, effect, "clients", "snapshots")
    show_bars(console, bars)


def show_effect(console: Console, effect: Effect, what: str, updates: str) -> None:
    """Print the latencies with and without these clients."""
    scheduling = "SCHED_FIFO" if effect.fifo else "normal scheduling"
    table = Table(
        title=f"{effect.blocks} blocks, {effect.clients} {what}, {effect.snapshots} {updates}, "
        f"{scheduling} (µs)",
        title_justify="left",
    )
    table.add_column("")
    for name in ("slots", "p50", "p99", "p99.9", "largest"):
        table.add_column(name, justify="right")
    table.add_row(f"wake-up, with {what}", *cells_of(effect.wake_with))
    table.add_row("wake-up, without", *cells_of(effect.wake_without))
    table.add_row(f"decide, with {what}", *cells_of(effect.decide_with))
    table.add_row("decide, without", *cells_of(effect.decide_without))
    console.print(table)
    console.print(
        f"{effect.missed_with} slots missed with {what}, {effect.missed_without} without.",
        highlight=False,
    )
