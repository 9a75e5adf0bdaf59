"""How far a calibration is, with the time left: a bar, or a line per cycle where a log is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from macontrol.controller.survey.calibration.walking import Progress as Done
from macontrol.standard_streams import print_plain


@contextmanager
def calibration_progress(
    *, shown: bool, console: Console | None = None
) -> Iterator[Callable[[Done], None]]:
    """Show a bar or lines while the bench is measured; call the function with how far it is."""
    console = console or Console()
    cycle = 0
    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[left]} left")
    with Progress(*columns, console=console, transient=True, disable=not shown) as progress:
        task = progress.add_task("calibration", total=None, left="")

        def update(done: Done) -> None:
            nonlocal cycle
            minutes, seconds = divmod(round(done.left_s), 60)
            if not shown and done.cycle != cycle:
                cycle = done.cycle
                left = f"{minutes}:{seconds:02d} left"
                print_plain(console, f"cycle {cycle} of {done.cycles}: {done.doing}; {left}")
            progress.update(
                task,
                description=f"{done.doing}, {done.cycle} of {done.cycles}",
                total=done.total_s,
                completed=done.total_s - done.left_s,
                left=f"{minutes}:{seconds:02d}",
            )

        yield update
