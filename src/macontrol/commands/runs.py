"""List recorded runs, newest first, or remove some of them.

Without PLACE, the runs in the state folder are listed: those that macontrol named itself.
A run file is an SQLite database with the tables `header`, `slots` and `events`; --schema describes
them. `macontrol report` and `macontrol compare` show runs in detail.

The gain is over an antenna fixed at x_0. It is known for runs on the simulated bench, whose world
is computed again from config and seed; on hardware it is unknown what
another antenna would have received.

--prune shows the runs that the criteria do not keep, asks, and removes them with the files that
belong to them. A run that is being recorded is never removed, nor a file that is not a run file.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from macontrol.commands.shared_arguments import positive_int, positive_number
from macontrol.config.model.errors import UsageError
from macontrol.reports.quantities import duration_text, number_text

if TYPE_CHECKING:
    from macontrol.controller.recording.runfile.retention import StoredRun
    from macontrol.reports.listing import RunLine

CRITERIA = ("keep_runs", "keep_days", "keep_mb")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "places",
        type=Path,
        nargs="*",
        metavar="PLACE",
        help="folders with run files, or run files (default: the state folder)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--schema", action="store_true", help="print columns, events and reasons")
    pruning = parser.add_argument_group("pruning")
    pruning.add_argument("--prune", action="store_true", help="remove runs that are not kept")
    pruning.add_argument(
        "--keep-runs", type=positive_int, metavar="N", help="keep only the N newest runs"
    )
    pruning.add_argument(
        "--keep-days", type=positive_number, metavar="D", help="keep only runs of the last D days"
    )
    pruning.add_argument(
        "--keep-mb",
        type=positive_number,
        metavar="MB",
        help="keep only the newest runs that take MB megabytes together",
    )
    pruning.add_argument("--yes", action="store_true", help="remove without asking")


def main(arguments: argparse.Namespace) -> int:
    _refuse_conflicts(arguments)
    if arguments.schema:
        _print_schema(Console())
        return 0
    from macontrol.controller.recording.runfile import default_run_folder
    from macontrol.reports.listing import run_files

    places = arguments.places or [default_run_folder()]
    runs = run_files(place for place in places if arguments.places or place.exists())
    if arguments.prune:
        return _prune(arguments, runs)
    _list(runs, as_json=arguments.json, where=", ".join(map(str, places)))
    return 0


def _refuse_conflicts(arguments: argparse.Namespace) -> None:
    given = [name for name in CRITERIA if getattr(arguments, name) is not None]
    if arguments.schema and (arguments.places or arguments.prune or arguments.json):
        raise UsageError("--schema describes all run files", "give it alone")
    if arguments.prune and not given:
        raise UsageError("--prune needs a criterion", "give --keep-runs, --keep-days or --keep-mb")
    if not arguments.prune and (given or arguments.yes):
        option = f"--{given[0].replace('_', '-')}" if given else "--yes"
        raise UsageError(f"{option} needs --prune")
    if arguments.prune and arguments.json:
        raise UsageError("--json lists runs, and --prune removes them", "give one of them")


def _list(runs: Sequence[StoredRun], *, as_json: bool, where: str) -> None:
    from macontrol.reports.listing import lines_of

    lines = lines_of(runs)
    if as_json:
        print(json.dumps([asdict(line) for line in lines], indent=2, default=str))
        return
    if not lines:
        print(f"no run files in {where}")
        return
    for row in _aligned([HEADS, *map(_cells, lines)]):
        print(row)
    for note in _notes(lines):
        print(note)


HEADS = (
    "started (UTC)",
    "length",
    "backend",
    "policy",
    "reward",
    "gain",
    "travel",
    "faults",
    "file",
)
_RIGHT = ("length", "reward", "gain", "travel", "faults")
_NOTES = {"being recorded": " (being recorded)", "cut off": " (cut off)"}


def _cells(line: RunLine) -> tuple[str, ...]:
    if line.problem is not None or line.started is None:
        return (*["–"] * (len(HEADS) - 1), f"{line.problem}")
    return (
        f"{line.started:%Y-%m-%d %H:%M}",
        duration_text(line.duration_s),
        str(line.backend),
        str(line.policy),
        number_text(line.mean_reward, ".3f"),
        number_text(line.gain_over_fixed, "+.1%"),
        f"{line.travel:.1f} λ",
        str(line.faults),
        f"{line.file}{_NOTES.get(str(line.state), '')}",
    )


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The rows with columns of equal width; the last one is as long as it is."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(HEADS) - 1)]
    for row in rows:
        cells = [
            cell.rjust(width) if head in _RIGHT else cell.ljust(width)
            for cell, width, head in zip(row, widths, HEADS, strict=False)
        ]
        yield "  ".join([*cells, row[-1]])


def _notes(lines: Sequence[RunLine]) -> Iterator[str]:
    """What the columns mean, where that is not clear from their names."""
    total = sum(line.size_bytes for line in lines) / 1e6
    runs = "1 run" if len(lines) == 1 else f"{len(lines)} runs"
    yield f"{runs}, {total:.1f} MB. Reward in bit/s/Hz, travel in wavelengths."
    for how in sorted({line.gain_known_from for line in lines if line.gain_known_from}):
        yield f"Gain over an antenna fixed at x_0: from {how}."
    for why in sorted({line.gain_unknown_because for line in lines if line.gain_unknown_because}):
        yield f"Gain unknown: {why}."


def _prune(arguments: argparse.Namespace, runs: Sequence[StoredRun]) -> int:
    """Show what is not kept, ask, and remove it."""
    from macontrol.controller.recording.runfile.retention import (
        Keep,
        is_being_written,
        remove_run,
        surplus,
    )

    keep = Keep(arguments.keep_runs, arguments.keep_days, arguments.keep_mb)
    found = [run for run in surplus(runs, keep, time.time()) if not is_being_written(run.path)]
    if not found:
        print("nothing to remove")
        return 0
    for run in found:
        when = time.strftime("%Y-%m-%d %H:%M", time.gmtime(run.last_written_s))
        print(f"{when}  {run.size_bytes / 1e6:10.1f} MB  {run.path}")
    size = sum(run.size_bytes for run in found) / 1e6
    if not arguments.yes and not _confirmed(f"Remove these {len(found)} runs ({size:.1f} MB)?"):
        print("nothing is removed")
        return 0
    removed = [run for run in found if remove_run(run.path)]
    print(f"removed {len(removed)} runs, {sum(run.size_bytes for run in removed) / 1e6:.1f} MB")
    return 0


def _confirmed(question: str) -> bool:
    if not (sys.stdin and sys.stdin.isatty()):
        raise UsageError("--prune asks first, and the input is not a terminal", "give --yes")
    print(f"{question} [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _print_schema(console: Console) -> None:
    from macontrol.controller.recording.events import event_rows, reason_rows
    from macontrol.controller.recording.runfile.schema import column_rows

    title = "reasons without a reward (column `invalid`)"
    for name, heads, rows in (
        ("columns", ("table", "column", "unit", "meaning"), column_rows()),
        ("kinds of events", ("kind", "meaning", "value"), event_rows()),
        (title, ("reason", "meaning"), reason_rows()),
    ):
        table = Table(*heads, title=name, title_justify="left")
        for row in rows:
            table.add_row(*row)
        console.print(table, markup=False)
