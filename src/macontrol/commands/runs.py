"""Describe run files: with --schema, their columns and events.

A run file is an SQLite database with the tables `header`, `slots` and `events`. `macontrol export`
writes it as csv or npz, with the same columns.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from macontrol.config.model.errors import UsageError
from macontrol.controller.recording.records import EventKind
from macontrol.controller.recording.runfile.schema import SLOT_COLUMNS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--schema", action="store_true", help="print the columns and events")


def main(arguments: argparse.Namespace) -> int:
    if not arguments.schema:
        raise UsageError("macontrol runs: an option is missing", "give --schema")
    console = Console()
    columns = [(column.name, column.kind) for column in SLOT_COLUMNS]
    console.print(_table("slots: one row per slot", ("column", "type"), columns))
    events = [(str(kind),) for kind in EventKind]
    console.print(_table("events: one row per event", ("kind",), events))
    return 0


def _table(title: str, heads: tuple[str, ...], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(*heads, title=title, title_justify="left")
    for row in rows:
        table.add_row(*row)
    return table
