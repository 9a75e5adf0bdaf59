"""Compare recorded runs with the first one: their figures, and the difference of their rewards.

Runs in the same simulated world are compared slot by slot, so that the world cancels. Other runs
are compared by their means. Standard errors are those of batch means, because the rewards of
neighbouring slots are correlated. A difference within two standard errors may be chance.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from macontrol.commands.shared_arguments import refuse_input_as_output
from macontrol.config.model.errors import UsageError
from macontrol.standard_streams import print_plain

if TYPE_CHECKING:
    from macontrol.reports.comparison import Difference, Entry


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="two or more run files")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write it as a page (HTML)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def main(arguments: argparse.Namespace) -> int:
    from macontrol.config.files.atomic_file import atomic_text, check_output
    from macontrol.config.model.errors import DataError
    from macontrol.reports.comparison import differences, entries_of
    from macontrol.reports.comparison_report import as_data, comparison_page
    from macontrol.reports.recorded import read_recorded

    if len(arguments.runs) < 2:
        raise UsageError("a comparison needs at least two runs", "give another run file")
    if arguments.out is not None:
        for run in arguments.runs:
            refuse_input_as_output("--out", arguments.out, run, "run file")
        check_output(arguments.out)
    found = [read_recorded(run) for run in arguments.runs]
    for recorded in found:
        if recorded.length == 0:
            raise DataError(f"{recorded.path}: contains no slot yet", "compare runs with slots")
    entries = entries_of(found)
    compared = differences(entries)
    if arguments.out is not None:
        text = comparison_page(entries, compared)
        with atomic_text(arguments.out) as file:
            file.write(text)
    if arguments.json:
        print(json.dumps(as_data(entries, compared), indent=2, allow_nan=False))
    else:
        _show(entries, compared, arguments.out)
    return 0


def _show(entries: Sequence[Entry], compared: Sequence[Difference], out: Path | None) -> None:
    from macontrol.reports.comparison import HOW
    from macontrol.reports.comparison_report import FIGURES, figures_of, sentence

    console = Console()
    table = Table("", *(Column(Text(entry.name)) for entry in entries))
    for row in zip(FIGURES, *map(figures_of, entries), strict=True):
        table.add_row(*map(Text, row))
    console.print(table)
    lines = []
    for one in compared:
        changed = ", ".join(
            f"{key} {before} → {after}" for key, (before, after) in one.settings.items()
        )
        lines += [sentence(one), f"  {one.basis}", f"  settings: {changed or 'the same'}"]
    lines += [HOW] if out is None else [HOW, f"Written: {out}"]
    for line in lines:
        print_plain(console, line)
