"""Bars: statements that a benchmark checks, and how a benchmark shows its results."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
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


def finish(
    arguments: argparse.Namespace,
    data: Mapping[str, object],
    bars: Sequence[Bar],
    show: Callable[[Console], None],
) -> int:
    """Print the result as JSON or by `show`; return the exit code."""
    if arguments.json:
        print(json.dumps(data, indent=2, allow_nan=False))
    else:
        show(wide_console())
    return exit_code(bars, strict=arguments.strict)


def exit_code(bars: Sequence[Bar], *, strict: bool = True) -> int:
    """1 if a measured bar is missed and the benchmark is strict, else 0."""
    return MISSED_EXIT_CODE if strict and any(bar.holds is False for bar in bars) else 0
