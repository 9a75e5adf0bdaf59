"""How far the walk along the rail has come, for a person at a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress


@contextmanager
def survey_progress(
    positions: int, *, shown: bool, console: Console | None = None
) -> Iterator[Callable[[int], None]]:
    """A bar that goes when the walk is over; it is told how many positions are done."""
    with Progress(console=console, transient=True, disable=not shown) as progress:
        task = progress.add_task("walking the rail", total=positions)
        yield lambda done: progress.update(task, completed=done)
