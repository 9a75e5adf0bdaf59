"""Reproduce the paper's figures: numbers with standard errors, plots, and a table of bars.

`panel` is not a figure of the paper. It runs all policies in worlds of several channel models, and
compares each with MoveUCB as published (docs/panel.md).

Realization i is the simulated world of seed SEED + i, the same in every figure. Results are kept
in DIR/results as soon as they are computed. The same command again continues from them, and
figures share the results that they have in common.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from macontrol.commands import reproduce_panel
from macontrol.commands.shared_arguments import positive_int, seed_number
from macontrol.config import Config, differing_keys, load_config
from macontrol.config.model.errors import UsageError
from macontrol.config.model.suggestion import pip_install
from macontrol.sim.research.campaign import Results, complete
from macontrol.sim.research.executor import ProcessPool, available_cores, dask_cluster
from macontrol.sim.research.figures import FIGURES, PAPER_FIGURES, Setting
from macontrol.sim.research.outcome import CHANGED_SETTINGS
from macontrol.sim.research.panel.cells import (
    IEEE_REALIZATIONS,
    IEEE_SLOTS,
    PAPER_REALIZATIONS,
)
from macontrol.sim.research.report import (
    FULL_REALIZATIONS,
    FULL_SLOTS,
    Line,
    is_comparable,
    table,
    write_numbers,
    write_summary,
)
from macontrol.sim.research.tasks import Play, Task
from macontrol.standard_streams import is_terminal

LEAST_SLOTS = 100
LOG_WIDTH = 140
INTERRUPTED = 130
MISSED = 1
SET_BY_THE_FIGURES = {
    "algorithm.policy": "every figure has its own",
    "algorithm.sweep_period": "it is selected by its regret",
    "channel.scenario": "every figure has its own",
    "drift.model": "every figure has its own",
    "drift.change_points": "every figure has its own",
    "run.horizon": "give it as --slots",
    "run.seed": "give it as --seed",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "figure",
        choices=[*FIGURES, "all", reproduce_panel.NAME],
        metavar="FIGURE",
        help=f"{', '.join(FIGURES)}; all: those of the paper; panel: policies in many worlds",
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="the folder to write to"
    )
    parser.add_argument(
        "--realizations",
        type=positive_int,
        help=f"default: {FULL_REALIZATIONS}; of the panel {PAPER_REALIZATIONS} in the paper's "
        f"worlds and {IEEE_REALIZATIONS} in the others",
    )
    parser.add_argument(
        "--slots",
        type=positive_int,
        help=f"the horizon (default: {FULL_SLOTS}; {IEEE_SLOTS} in the panel's IEEE worlds)",
    )
    parser.add_argument(
        "--seed",
        "--first-seed",
        type=seed_number,
        help="seed of the first realization (default: 1)",
    )
    parser.add_argument(
        "--jobs",
        type=positive_int,
        default=available_cores(),
        metavar="N",
        help="worker processes (default: one per core, %(default)s)",
    )
    parser.add_argument(
        "--engine",
        choices=("local", "dask"),
        default="local",
        help="a process pool, or a Dask cluster (default: local)",
    )
    parser.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="address of a running Dask cluster, as in tcp://10.0.0.1:8786 "
        "(default: one is started on this machine)",
    )
    parser.add_argument("--no-plots", action="store_true", help="numbers only")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="SECTION.KEY=VALUE",
        help="change one setting in every world, as in channel.sub_ray_phases=random; "
        "can be repeated",
    )
    parser.add_argument(
        "--strict",
        action="store_true",
        help="exit with 1 if a quantity misses its bar or is not comparable with it",
    )
    reproduce_panel.add_arguments(parser)


def main(arguments: argparse.Namespace) -> int:
    _refuse_contradictions(arguments)
    # A log or a pipe has no width; the table needs one.
    console = Console(width=None if is_terminal(sys.stdout) else LOG_WIDTH)
    base = load_config(assignments=arguments.set)
    if arguments.figure == reproduce_panel.NAME:
        _refuse_settings(base)
        panel = reproduce_panel.panel_of(arguments, base)
        results = Results(arguments.out / "results")
        if not _complete(arguments, list(panel.tasks()), results, console):
            return INTERRUPTED
        reproduce_panel.write(arguments, panel, results, console)
        return 0
    return _figures(arguments, base, console)


def _figures(arguments: argparse.Namespace, base: Config, console: Console) -> int:
    names = list(PAPER_FIGURES) if arguments.figure == "all" else [arguments.figure]
    setting = Setting(
        base,
        arguments.realizations or FULL_REALIZATIONS,
        arguments.slots or FULL_SLOTS,
        1 if arguments.seed is None else arguments.seed,
    )
    _refuse_settings(base)
    results = Results(arguments.out / "results")
    tasks = [task for name in names for task in FIGURES[name].tasks(setting)]
    if not _complete(arguments, tasks, results, console):
        return INTERRUPTED
    outcomes = {name: FIGURES[name].measure(setting, results) for name in names}
    changed = ", ".join(f"{key} = {value}" for key, value in setting.changes.items())
    if changed:
        for outcome in outcomes.values():
            outcome.notes[CHANGED_SETTINGS] = changed
    written: list[Path] = []
    for name, outcome in outcomes.items():
        written += write_numbers(arguments.out, name, outcome)
        if not arguments.no_plots:
            from macontrol.sim.research.plots.figures import draw

            written += draw(arguments.out, name, outcome)
    lines = table(outcomes, comparable=is_comparable(setting))
    facts = _theory_facts(tasks, results)
    written += write_summary(arguments.out, setting, lines, facts)
    _show(console, setting, lines, facts)
    files = ", ".join(path.name for path in written)
    console.print(f"Written to {arguments.out}: {files}", markup=False, highlight=False)
    missed = any(line.verdict in ("MISS", "not comparable") for line in lines)
    return MISSED if arguments.strict and missed else 0


def _complete(
    arguments: argparse.Namespace, tasks: list[Task], results: Results, console: Console
) -> bool:
    """Compute the missing results; False after an interruption."""
    try:
        complete(
            tasks,
            results,
            lambda: _engine(arguments),
            workers=arguments.jobs,
            console=console,
            title=f"reproduce {arguments.figure}",
        )
    except KeyboardInterrupt:
        kept = len({task.key for task in tasks}) - len(results.missing(tasks))
        print(
            f"macontrol: interrupted; {kept} results are kept in {arguments.out / 'results'}. "
            f"To continue, run the same command again: macontrol {shlex.join(sys.argv[1:])}",
            file=sys.stderr,
        )
        return False
    return True


def _refuse_settings(base: Config) -> None:
    """Refuse `--set` of what the figures set."""
    for key in differing_keys(base, load_config()):
        if key in SET_BY_THE_FIGURES:
            raise UsageError(f"--set {key}: the figures set this", SET_BY_THE_FIGURES[key])


def _refuse_contradictions(arguments: argparse.Namespace) -> None:
    reproduce_panel.refuse_contradictions(arguments)
    if arguments.scheduler is not None and arguments.engine != "dask":
        raise UsageError("--scheduler needs --engine dask")
    if arguments.slots is not None and arguments.slots < LEAST_SLOTS:
        raise UsageError(f"--slots {arguments.slots}: the figures need at least {LEAST_SLOTS}")
    if not arguments.no_plots:
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            raise UsageError(
                "plots need matplotlib, which is not installed",
                f"{pip_install('matplotlib')}, or --no-plots for the numbers only",
            ) from None


def _engine(arguments: argparse.Namespace) -> AbstractContextManager[Executor]:
    if arguments.engine == "dask":
        return dask_cluster(arguments.jobs, arguments.scheduler)
    return ProcessPool(arguments.jobs)


def _theory_facts(tasks: list[Task], results: Results) -> dict[str, int]:
    """The number of runs, and of those that violate an inequality of the paper.

    These are reach, region, Lemma 1 and Proposition 1.
    """
    plays = {task.key: results[task] for task in tasks if isinstance(task, Play)}
    violated = sum(result["violations"] > 0 for result in plays.values())
    return {"runs": len(plays), "runs_that_violate_the_theory": violated}


def _show(console: Console, setting: Setting, lines: list[Line], facts: dict[str, int]) -> None:
    title = f"{setting.realizations} realizations of {setting.slots} slots"
    for key, value in setting.changes.items():
        title += escape(f", {key} = {value}")
    shown = Table(title=title, title_justify="left")
    shown.add_column("quantity")
    shown.add_column("measured ± s.e.", justify="right", no_wrap=True)
    shown.add_column("paper", justify="right")
    shown.add_column("bar", justify="right", no_wrap=True)
    shown.add_column("", no_wrap=True)
    colours = {"pass": "green", "level": "yellow", "MISS": "bold red"}
    for line in lines:
        note = f"\n  [dim]{escape(line.note)}[/dim]" if line.note else ""
        shown.add_row(
            escape(line.bar.text) + note,
            line.value,
            line.bar.paper,
            line.bar.range,
            f"[{colours.get(line.verdict, 'dim')}]{line.verdict}[/]",
        )
    console.print(shown)
    console.print("s.e.: standard error of the mean. level: a lead within two standard errors.")
    if not is_comparable(setting):
        console.print(
            f"The bars are for {FULL_REALIZATIONS} realizations of {FULL_SLOTS} slots at Table 1: "
            "this campaign is not comparable with them."
        )
    console.print(
        f"{facts['runs']} runs checked against the theory (reach, region, Lemma 1, Proposition 1): "
        f"{facts['runs_that_violate_the_theory']} violate it.",
        highlight=False,
    )
