"""A progress bar for the survey."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress


@contextmanager
def survey_progress(
    positions: int, *, shown: bool, console: Console | None = None
) -> Iterator[Callable[[int], None]]:
    """Show a bar during the survey; call the function with the number of positions done."""
    with Progress(console=console, transient=True, disable=not shown) as progress:
        task = progress.add_task("survey of the rail", total=positions)
        yield lambda done: progress.update(task, completed=done)
