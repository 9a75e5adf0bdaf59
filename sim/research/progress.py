"""Progress of a reproduction: a bar on a terminal, a line from time to time elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

LINE_INTERVAL_S = 15.0


class Meter(Protocol):
    """Receives finished work: the number of tasks and their expected time."""

    def advance(self, tasks: int, seconds: float) -> None: ...


class Forecast:
    """The remaining time, from the expected and the actual time of the finished work."""

    def __init__(self, seconds: float, workers: int) -> None:
        self._expected = seconds
        self._left = seconds
        self._workers = workers
        self._last = 0.0
        self._start = time.monotonic()

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._start

    def advance(self, seconds: float) -> None:
        self._left = max(self._left - seconds, 0.0)
        self._last = seconds

    def left(self) -> float:
        """The remaining time in seconds; before anything is finished, the expected time."""
        done = self._expected - self._left
        if not done:
            return self._left / self._workers
        # The other workers are on average half-way through jobs as long as the last one.
        in_progress = min(self._left, (self._workers - 1) * self._last / 2)
        return (self._left - in_progress) * self.elapsed / (done + in_progress)


class _Bar:
    def __init__(self, console: Console, title: str, tasks: int, forecast: Forecast) -> None:
        self._forecast = forecast
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("results,"),
            TimeElapsedColumn(),
            TextColumn("elapsed, {task.fields[left]} left"),
            console=console,
        )
        self._id = self._progress.add_task(
            title, total=tasks, left=f"about {spell(forecast.left())}"
        )

    def __enter__(self) -> _Bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def advance(self, tasks: int, seconds: float) -> None:
        self._forecast.advance(seconds)
        left = self._forecast.left()
        text = f"about {spell(left)}" if left else "nothing"
        self._progress.update(self._id, advance=tasks, left=text)


class _Lines:
    def __init__(self, console: Console, title: str, tasks: int, forecast: Forecast) -> None:
        self._console, self._title, self._forecast = console, title, forecast
        self._tasks, self._done, self._printed_s = tasks, 0, 0.0
        self._print()

    def advance(self, tasks: int, seconds: float) -> None:
        self._done += tasks
        self._forecast.advance(seconds)
        since_s = self._forecast.elapsed - self._printed_s
        if self._done == self._tasks or since_s >= LINE_INTERVAL_S:
            self._print()

    def _print(self) -> None:
        self._printed_s = self._forecast.elapsed
        self._console.print(
            f"{self._title}: {self._done}/{self._tasks} results, "
            f"{spell(self._printed_s)} elapsed, about {spell(self._forecast.left())} left",
            highlight=False,
            soft_wrap=True,
        )


@contextmanager
def meter(
    console: Console, title: str, *, tasks: int, seconds: float, workers: int
) -> Iterator[Meter]:
    """A meter for a number of tasks and their expected core seconds."""
    forecast = Forecast(seconds, workers)
    if console.is_terminal:
        with _Bar(console, title, tasks, forecast) as bar:
            yield bar
    else:
        yield _Lines(console, title, tasks, forecast)


def spell(seconds: float) -> str:
    """A time as minutes and seconds, or hours and minutes."""
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d} min"
    return f"{whole // 3600}:{whole % 3600 // 60:02d} h"
