"""Time a complete decision: observe, posterior on the grid, acquisition, persistence, step.

At the sizes of Table 1, compared in one run with a SciPy solve from scratch and, if it is
installed, with scikit-learn's GaussianProcessRegressor; then the growth of the cost with the
window w, with the grid size G, and with the rail's length D at the same spacing. One BLAS thread.
Times are of the wall clock, ratios of processor time. Use an idle machine.
"""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from macontrol.commands.bench.bars import Bar, add_output_arguments, finish, show_bars
from macontrol.commands.bench.decisions import (
    PeerResult,
    PosteriorType,
    Times,
    World,
    growth,
    side_by_side,
)
from macontrol.commands.bench.direct import DirectPosterior
from macontrol.commands.bench.memory import READINGS, Soak, soak
from macontrol.commands.bench.peers import ScipyPosterior
from macontrol.commands.shared_arguments import positive_int
from macontrol.config import Config, load_config
from macontrol.config.model.suggestion import pip_install
from macontrol.controller.host.blas import Blas, loaded_blas

SUMMARY = "the time of one decision, compared with SciPy and scikit-learn"

WINDOWS = (100, 300, 1000, 3000)
GRIDS = (601, 1201, 3001, 6001)
RAILS = (6, 24, 48, 96)
RAIL_SLOTS = 64
SEED = 1

OURS = "macontrol"
SCIPY = "SciPy from scratch, kernel from a table"
DIRECT = "SciPy from scratch, kernel evaluated"
SKLEARN = "scikit-learn, refitted"
COLUMNS = ("decisions", "median", "p99", "p99.9", "CPU median", "× CPU")
KEYS = {SCIPY: "scipy", DIRECT: "scipy_direct", SKLEARN: "scikit_learn"}

FASTER_THAN_SCIPY = 40.0
FASTER_THAN_SKLEARN = 400.0
WINDOW_COST = 1.3
# One float per slot for a million slots would be eight times as much, ...
RESIDENT_GROWTH = 2**20
# ... and a million blocks; Python's own free lists vary by some hundreds.
BLOCKS_GROWTH = 1000


@dataclass(frozen=True)
class Effort:
    """The amount of work: rounds of blocks of decisions."""

    map_slots: int
    rounds: int
    block: int
    scipy: int
    sklearn: int
    growth_rounds: int
    rails: tuple[int, ...] = RAILS


FULL = Effort(map_slots=8192, rounds=200, block=100, scipy=10, sklearn=5, growth_rounds=50)
QUICK = Effort(512, rounds=3, block=25, scipy=2, sklearn=1, growth_rounds=3, rails=(6, 24))


@dataclass(frozen=True)
class Outcome:
    """All measured values."""

    machine: dict[str, Any]
    blas: list[Blas]
    config: Config
    ours: Times
    peers: dict[str, PeerResult]
    by_window: dict[int, Times]
    by_grid: dict[int, Times]
    by_rail: dict[int, Times]
    memory: Soak | None

    def slower(self, peer: str) -> float | None:
        """The median of a peer divided by ours, in processor time."""
        return _ratio(self.peers[peer].times, self.ours) if peer in self.peers else None

    def bars(self) -> list[Bar]:
        table1 = self.config.algorithm.window
        window_cost = _ratio(self.by_window[WINDOWS[-1]], self.by_window[table1])
        threads = [blas.threads for blas in self.blas]
        known = bool(threads) and None not in threads
        bars = [
            Bar(
                "one BLAS thread",
                ", ".join(f"{b.library}: {b.threads or 'unknown'}" for b in self.blas) or "unknown",
                all(count == 1 for count in threads) if known else None,
            ),
            _faster(FASTER_THAN_SCIPY, SCIPY, self.slower(SCIPY)),
            _faster(FASTER_THAN_SKLEARN, SKLEARN, self.slower(SKLEARN)),
            Bar(
                f"w = {WINDOWS[-1]} costs at most {WINDOW_COST:g} times as much as w = {table1}",
                f"{window_cost:.2f}",
                window_cost <= WINDOW_COST,
            ),
        ]
        if self.memory is not None:
            soaked = self.memory
            bars.append(
                Bar(
                    f"memory does not grow over {soaked.slots} slots",
                    f"{soaked.resident_growth / 1024:+.0f} KiB resident, "
                    f"{soaked.blocks_growth:+d} Python blocks",
                    soaked.resident_growth <= RESIDENT_GROWTH
                    and soaked.blocks_growth <= BLOCKS_GROWTH,
                )
            )
        return bars

    def as_json(self) -> dict[str, Any]:
        def growing(sizes: dict[int, Times], table1: int) -> list[dict[str, Any]]:
            return [
                {"size": size, **asdict(times), "ratio": _ratio(times, sizes[table1])}
                for size, times in sizes.items()
            ]

        return {
            "unit": "microseconds",
            "machine": self.machine,
            "blas": [asdict(blas) for blas in self.blas],
            "window": self.config.algorithm.window,
            "grid": self.config.grid_size,
            "macontrol": asdict(self.ours),
            "peers": {key: self._peer_as_json(name) for name, key in KEYS.items()},
            "by_window": growing(self.by_window, self.config.algorithm.window),
            "by_grid": growing(self.by_grid, self.config.grid_size),
            "by_rail": growing(self.by_rail, RAILS[0]),
            "memory": None if self.memory is None else asdict(self.memory),
            "verdicts": [asdict(bar) for bar in self.bars()],
        }

    def _peer_as_json(self, name: str) -> dict[str, Any] | None:
        if name not in self.peers:
            return None
        peer = asdict(self.peers[name])
        return {**peer.pop("times"), "slower": self.slower(name), **peer}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_output_arguments(parser)
    parser.add_argument(
        "--quick", action="store_true", help="measure for a few seconds; percentiles mean little"
    )
    parser.add_argument(
        "--slots",
        type=positive_int,
        metavar="N",
        help="also run N more slots and measure memory, as in --slots 1000000",
    )


def main(arguments: argparse.Namespace) -> int:
    with _progress(hidden=arguments.json) as part:
        outcome = measure(QUICK if arguments.quick else FULL, soak_slots=arguments.slots, part=part)
    bars = outcome.bars()
    return finish(arguments, outcome.as_json(), bars, lambda console: _show(console, outcome))


Part = Callable[[str, int], Callable[[], None]]
"""Starts a part of the work with its number of steps; returns what to call after each step."""


def measure(effort: Effort, *, soak_slots: int | None, part: Part) -> Outcome:
    """Measure everything, at the sizes of Table 1 and around them."""
    config = load_config(preset="paper")
    peers: dict[str, tuple[PosteriorType, int]] = {
        SCIPY: (ScipyPosterior, effort.scipy),
        DIRECT: (DirectPosterior, effort.scipy // 2),
    }
    sklearn_posterior = _sklearn_posterior()
    if sklearn_posterior is not None:
        peers[SKLEARN] = (sklearn_posterior, effort.sklearn)
    blas = loaded_blas(use_one_thread=True)
    machine = _machine()
    world = World(config, seed=SEED, slots=effort.map_slots)
    ours, results = side_by_side(
        config,
        world,
        peers,
        rounds=effort.rounds,
        block=effort.block,
        advance=part("side by side", effort.rounds),
    )
    by_window = growth(
        {window: config.replace(algorithm__window=window) for window in WINDOWS},
        world,
        rounds=effort.growth_rounds,
        block=effort.block,
        advance=part("growth with w", effort.growth_rounds),
    )
    length = config.physical.region_length
    by_grid = growth(
        {size: config.replace(algorithm__grid_spacing=length / (size - 1)) for size in GRIDS},
        world,
        rounds=effort.growth_rounds,
        block=effort.block,
        advance=part("growth with G", effort.growth_rounds),
    )
    rails = {rail: config.replace(physical__region_length=float(rail)) for rail in effort.rails}
    by_rail = growth(
        rails,
        {rail: World(rails[rail], seed=SEED, slots=RAIL_SLOTS) for rail in effort.rails},
        rounds=effort.growth_rounds,
        block=effort.block,
        advance=part("growth with D", effort.growth_rounds),
    )
    memory = None
    if soak_slots is not None:
        memory = soak(config, world, soak_slots, advance=part("memory", READINGS))
    return Outcome(machine, blas, config, ours, results, by_window, by_grid, by_rail, memory)


def _sklearn_posterior() -> PosteriorType | None:
    try:
        from macontrol.commands.bench.sklearn_peer import SklearnPosterior
    except ImportError:
        return None
    return SklearnPosterior


def _machine() -> dict[str, Any]:
    processor = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                processor = line.partition(":")[2].strip()
                break
    except OSError:
        pass
    return {
        "processor": processor,
        "cores": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        **{package: _version(package) for package in ("numpy", "scipy", "scikit-learn")},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _ratio(times: Times, base: Times) -> float:
    return times.processor_median / base.processor_median


def _faster(least: float, peer: str, slower: float | None) -> Bar:
    return Bar(
        f"at least {least:g} times faster than {peer}",
        "not installed" if slower is None else f"{slower:.0f} times",
        None if slower is None else slower >= least,
    )


@contextmanager
def _progress(*, hidden: bool) -> Iterator[Part]:
    """A bar on a terminal, on standard error; nothing elsewhere."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description:14}"), BarColumn(), TimeElapsedColumn())
    progress = Progress(
        *columns,
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=hidden or not console.is_terminal,
        # Drawn between blocks, not by a thread that would run while a decision is timed.
        auto_refresh=False,
    )

    def part(title: str, steps: int) -> Callable[[], None]:
        task = progress.add_task(title, total=steps)

        def advance() -> None:
            progress.advance(task)
            progress.refresh()

        return advance

    with progress:
        yield part


def _show(console: Console, outcome: Outcome) -> None:
    machine, algorithm = outcome.machine, outcome.config.algorithm
    packages = ("python", "numpy", "scipy", "scikit-learn")
    versions = ", ".join(f"{name} {machine[name]}" for name in packages if machine[name])
    console.print(
        f"{machine['processor']}, {machine['cores']} cores, load {machine['load']}; {versions}",
        highlight=False,
    )
    shown = Table(
        title=f"One decision, w = {algorithm.window}, G = {outcome.config.grid_size} (µs)",
        title_justify="left",
    )
    shown.add_column("")
    for column in COLUMNS:
        shown.add_column(column, justify="right")
    shown.add_row(OURS, *_cells(outcome.ours), "1")
    for name, peer in outcome.peers.items():
        shown.add_row(name, *_cells(peer.times), f"{_ratio(peer.times, outcome.ours):.0f}")
    console.print(shown)
    for name, peer in outcome.peers.items():
        console.print(
            f"{name}: {peer.other_decisions} decisions differ from ours; posteriors differ by at "
            f"most {peer.mean_difference:.0e} σ_f (mean) and "
            f"{peer.variance_difference:.0e} σ_f² (variance).",
            highlight=False,
        )
    if SKLEARN not in outcome.peers:
        install = pip_install("scikit-learn")
        console.print(f"scikit-learn is not installed: {install}", markup=False, soft_wrap=True)
    _show_growth(console, "w", outcome.by_window, algorithm.window)
    _show_growth(console, "G", outcome.by_grid, outcome.config.grid_size)
    _show_growth(console, "D", outcome.by_rail, RAILS[0])
    if outcome.memory is not None:
        soaked = outcome.memory
        console.print(
            f"{soaked.slots} slots in {soaked.seconds:.0f} s: {soaked.resident_start / 2**20:.1f} "
            f"MiB resident, {soaked.resident_growth / 1024:+.0f} KiB by the end, at most "
            f"{soaked.resident_peak / 2**20:.1f} MiB; {soaked.blocks_growth:+d} Python blocks. "
            f"Error compared with a direct solve at the end: {soaked.mean_error:.0e} σ_f (mean), "
            f"{soaked.variance_error:.0e} σ_f² (variance); {soaked.refactorings} refactorings.",
            highlight=False,
        )
    show_bars(console, outcome.bars())


def _show_growth(console: Console, symbol: str, sizes: dict[int, Times], table1: int) -> None:
    shown = Table(title=f"Growth with {symbol} (µs)", title_justify="left")
    for column in (symbol, *COLUMNS):
        shown.add_column(column, justify="right")
    for size, times in sizes.items():
        shown.add_row(str(size), *_cells(times), f"{_ratio(times, sizes[table1]):.2f}")
    console.print(shown)


def _cells(times: Times) -> list[str]:
    values = (times.median, times.p99, times.p99_9, times.processor_median)
    return [str(times.count), *("–" if value is None else f"{value:,.1f}" for value in values)]
