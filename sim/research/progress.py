"""How a campaign tells how far it is: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

QUIET_SECONDS = 15.0


class Meter(Protocol):
    """Takes note of finished work: how many tasks, and how long they were expected to take."""

    def advance(self, tasks: int, seconds: float) -> None: ...


class Forecast:
    """The time left, from how long the work done so far took against what was expected of it."""

    def __init__(self, seconds: float, workers: int) -> None:
        self._expected = seconds
        self._left = seconds
        self._workers = workers
        self._last = 0.0
        self._start = time.monotonic()

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._start

    @property
    def done_share(self) -> float:
        return 1.0 - self._left / self._expected if self._expected else 1.0

    def advance(self, seconds: float) -> None:
        self._left = max(self._left - seconds, 0.0)
        self._last = seconds

    def left(self) -> float:
        """In seconds. Before anything is done, the plan's own guess."""
        done = self._expected - self._left
        if not done:
            return self._left / self._workers
        # The other workers are in the midst of jobs about as long as the last one.
        under_way = min(self._left, (self._workers - 1) * self._last / 2)
        return (self._left - under_way) * self.elapsed / (done + under_way)


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
        told = f"about {spell(left)}" if left else "nothing"
        self._progress.update(self._id, advance=tasks, left=told)


class _Lines:
    def __init__(self, console: Console, title: str, tasks: int, forecast: Forecast) -> None:
        self._console, self._title, self._forecast = console, title, forecast
        self._tasks, self._done, self._told = tasks, 0, 0.0
        self._tell()

    def advance(self, tasks: int, seconds: float) -> None:
        self._done += tasks
        self._forecast.advance(seconds)
        if self._done == self._tasks or self._forecast.elapsed - self._told >= QUIET_SECONDS:
            self._tell()

    def _tell(self) -> None:
        self._told = self._forecast.elapsed
        self._console.print(
            f"{self._title}: {self._done}/{self._tasks} results, "
            f"{spell(self._told)} elapsed, about {spell(self._forecast.left())} left",
            highlight=False,
            soft_wrap=True,
        )


@contextmanager
def meter(
    console: Console, title: str, *, tasks: int, seconds: float, workers: int
) -> Iterator[Meter]:
    """A meter for so many tasks, expected to take so many core seconds."""
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
