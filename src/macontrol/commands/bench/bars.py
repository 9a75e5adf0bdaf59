"""Bars: statements that a benchmark checks, and the table that shows them."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

MISSED_EXIT_CODE = 1

_VERDICTS = {True: "[green]holds[/]", False: "[bold red]MISSED[/]", None: "[dim]not measured[/]"}


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
