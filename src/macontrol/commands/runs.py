"""Describe run files: with --schema, their columns, events and reasons without a reward.

A run file is an SQLite database with the tables `header`, `slots` and `events`. `macontrol export`
writes it as csv or npz, with the same columns.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from macontrol.config.model.errors import UsageError
from macontrol.controller.recording.events import event_rows, reason_rows
from macontrol.controller.recording.runfile.schema import column_rows


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--schema", action="store_true", help="print columns, events and reasons")


def main(arguments: argparse.Namespace) -> int:
    if not arguments.schema:
        raise UsageError("`macontrol runs` needs --schema")
    console = Console()
    _print(console, "columns", ("table", "column", "unit", "meaning"), column_rows())
    _print(console, "kinds of events", ("kind", "meaning", "value"), event_rows())
    title = "reasons without a reward (column `invalid`)"
    _print(console, title, ("reason", "meaning"), reason_rows())
    return 0


def _print(
    console: Console, title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]
) -> None:
    table = Table(*heads, title=title, title_justify="left")
    for row in rows:
        table.add_row(*row)
    console.print(table, markup=False)
