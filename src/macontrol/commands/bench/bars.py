"""Bars: statements that a benchmark checks, and how a benchmark shows its results."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from macontrol.standard_streams import is_terminal

MISSED_EXIT_CODE = 1

_VERDICTS = {True: "[green]holds[/]", False: "[bold red]MISSED[/]", None: "[dim]not measured[/]"}


def add_output_arguments(parser: argparse.ArgumentParser) -> None:
    """--json and --strict."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument(
        "--strict", action="store_true", help="exit with 1 if a measured bar is missed"
    )


def wide_console() -> Console:
    """Standard output; a log or a pipe has no width, and tables need one."""
    return Console(width=None if is_terminal(sys.stdout) else 120)


@dataclass(frozen=True)
class Bar:
    """A statement about a measured value, and whether it holds; None if it was not measured."""

    statement: str
    measured: str
    holds: bool | None


def show_bars(console: Console, bars: list[Bar]) -> None:
    table = Table(show_header=False, title="Bars", title_justify="left")
    for bar in bars:
        table.add_row(bar.statement, bar.measured, _VERDICTS[bar.holds])
    console.print(table)


def exit_code(bars: list[Bar], *, strict: bool = True) -> int:
    """1 if a measured bar is missed and the benchmark is strict, else 0."""
    return MISSED_EXIT_CODE if strict and any(bar.holds is False for bar in bars) else 0
