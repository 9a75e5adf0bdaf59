"""A progress bar for the survey, of one walk or of several."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress


@contextmanager
def survey_progress(
    positions: int, *, walks: int = 1, shown: bool, console: Console | None = None
) -> Iterator[Callable[[int], None]]:
    """Show a bar with the time left during the survey.

    Call the function with the number of positions done, counted over all walks.
    """
    with Progress(console=console, transient=True, disable=not shown) as progress:
        task = progress.add_task(_title(0, positions, walks), total=positions * walks)
        yield lambda done: progress.update(
            task, completed=done, description=_title(done, positions, walks)
        )


def _title(done: int, positions: int, walks: int) -> str:
    if walks == 1:
        return "survey of the rail"
    return f"walk {min(done // positions + 1, walks)} of {walks}"
