"""A campaign: compute the results that are missing, job by job, and keep them in a folder.

A job is the tasks of one simulated world. It simulates the map once and computes the oracle for all
movement costs in one pass. Its input and its output are plain data, so that it runs in any process
on any machine. A result is one small JSON file, named by its key and written completely or not at
all, as soon as its job is finished: an interruption loses only the jobs in progress.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from concurrent.futures import BrokenExecutor, Executor, as_completed
from contextlib import AbstractContextManager
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from macontrol.config.files.atomic_file import atomic_text
from macontrol.config.files.input_file import RESULT_LIMIT, read_input
from macontrol.config.model.errors import InputOutputError, MacontrolError, reason_of
from macontrol.sim.research.tasks import Oracle, OracleCourse, Result, Task

JOB_SECONDS = 8.0
"""The approximate length of a job: long compared with the simulation of its map."""
LINE_INTERVAL_S = 15.0

Job: TypeAlias = tuple[Task, ...]
"""Tasks that share one simulated world."""


def job_seconds(job: Job) -> float:
    """The approximate time of a job on one core."""
    return sum(task.seconds for task in job) + job[0].map_seconds


def plan_jobs(tasks: Iterable[Task]) -> list[Job]:
    """Group tasks by world, each task once. Long jobs come first, so that none is the last."""
    worlds: dict[str, dict[str, Task]] = {}
    for task in tasks:
        worlds.setdefault(task.world_key, {})[task.key] = task
    jobs = [job for world in worlds.values() for job in _cut(list(world.values()))]
    return sorted(jobs, key=job_seconds, reverse=True)


def _cut(tasks: list[Task]) -> list[Job]:
    """The tasks of one world as jobs of about equal length, none much longer than JOB_SECONDS,
    or than twice the time of its map."""
    # Oracles stay together, because they are computed in one pass.
    tasks = sorted(tasks, key=lambda task: type(task).__name__)
    ends = np.cumsum([task.seconds for task in tasks])
    pieces = max(1, round(ends[-1] / max(JOB_SECONDS, 2 * tasks[0].map_seconds)))
    shares = ends[-1] / pieces * np.arange(1, pieces)
    cuts = [0, *np.searchsorted(ends, shares).tolist(), None]
    return [tuple(tasks[a:b]) for a, b in pairwise(cuts) if tasks[a:b]]


def run_job(job: Job) -> dict[str, Result]:
    """Execute a job; the result of each task by its key."""
    config = job[0].config
    world = job[0].source.simulate(config, config.run.seed, config.run.horizon)
    results: dict[str, Result] = {}
    oracles: list[Oracle] = []
    optima: dict[float, float] = {}
    for task in job:
        if isinstance(task, Oracle):
            oracles.append(task)
        elif isinstance(task, OracleCourse):
            results[task.key], optimum = task.course(world)
            optima[task.config.reward.movement_cost] = optimum
        else:
            try:
                results[task.key] = task.compute(world)
            except MacontrolError as error:  # as of a policy: one of hundreds of tasks
                error.detail = f"{task.description}: {error.detail}"
                raise
    found = Oracle.compute_all(oracles, world, known=optima)
    return results | {task.key: result for task, result in zip(oracles, found, strict=True)}


class Results:
    """The stored results in a folder, by task."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._loaded: dict[str, Result] = {}
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputOutputError(
                f"{folder}: cannot be written: {reason_of(error)}",
                "choose with --out a folder that can be written to and has free space",
            ) from error

    def __getitem__(self, task: Task) -> Result:
        if task.key not in self._loaded:
            try:
                result = json.loads(read_input(self._path(task.key), RESULT_LIMIT))
            except (MacontrolError, ValueError, RecursionError):
                result = None
            if not isinstance(result, dict):  # missing or damaged: it is computed (again)
                raise KeyError(task.key)
            self._loaded[task.key] = result
        return self._loaded[task.key]

    def __contains__(self, task: Task) -> bool:
        try:
            self[task]
        except KeyError:
            return False
        return True

    def missing(self, tasks: Iterable[Task]) -> list[Task]:
        """The tasks without a result, each once."""
        return [task for task in {task.key: task for task in tasks}.values() if task not in self]

    def keep(self, key: str, result: Result) -> None:
        """Write a result, completely or not at all."""
        with atomic_text(self._path(key)) as file:
            file.write(json.dumps(result, allow_nan=False) + "\n")
        self._loaded[key] = result

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.json"


def complete(
    tasks: Iterable[Task],
    results: Results,
    engine: Callable[[], AbstractContextManager[Executor]],
    *,
    workers: int,
    console: Console,
    title: str = "reproduction",
) -> int:
    """Compute the missing results; return their number."""
    tasks = list(tasks)
    missing = results.missing(tasks)
    wanted = len({task.key for task in tasks})
    if len(missing) < wanted:
        console.print(f"{wanted - len(missing)} of {wanted} results exist already")
    if not missing:
        return 0
    jobs = plan_jobs(missing)
    expected = sum(job_seconds(job) for job in jobs)
    console.print(
        f"{len(missing)} results to compute in {len(jobs)} jobs, "
        f"roughly {_spell(expected / workers)} on {workers} workers",
        highlight=False,
    )
    try:
        with engine() as executor:
            pending = {executor.submit(run_job, job): job for job in jobs}
            meter = _Meter(console, title, len(missing), expected, workers)
            with meter.bar:
                for future in as_completed(pending):
                    for key, result in future.result().items():
                        results.keep(key, result)
                    job = pending.pop(future)
                    meter.advance(len(job), job_seconds(job))
    except BrokenExecutor as error:
        raise MacontrolError(
            f"a worker process died ({error}), possibly for lack of memory",
            "run the same command again to continue, with fewer --jobs if memory is short",
        ) from error
    return len(missing)


class _Meter:
    """The progress: a bar on a terminal, a line from time to time elsewhere."""

    def __init__(
        self, console: Console, title: str, tasks: int, expected_s: float, workers: int
    ) -> None:
        self._console, self._title, self._tasks, self._workers = console, title, tasks, workers
        self._expected_s = self._left_s = expected_s
        self._begin_s = self._printed_s = time.monotonic()
        self._done = 0
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("results,"),
            TimeElapsedColumn(),
            TextColumn("elapsed, {task.fields[left]} left"),
            console=console,
            disable=not console.is_terminal,
        )
        left = f"about {_spell(expected_s / workers)}"
        self._bar_id = self.bar.add_task(title, total=tasks, left=left)
        self._print_line(left)

    def advance(self, tasks: int, seconds: float) -> None:
        """Report finished work: the number of tasks and their expected time."""
        self._done += tasks
        self._left_s = max(self._left_s - seconds, 0.0)
        # The other workers are on average half-way through jobs as long as this one.
        in_progress = min(self._left_s, (self._workers - 1) * seconds / 2)
        speed = (time.monotonic() - self._begin_s) / (self._expected_s - self._left_s + in_progress)
        left = f"about {_spell((self._left_s - in_progress) * speed)}"
        self.bar.update(self._bar_id, advance=tasks, left=left if self._left_s else "nothing")
        since_s = time.monotonic() - self._printed_s
        if self._done == self._tasks or since_s >= LINE_INTERVAL_S:
            self._print_line(left)

    def _print_line(self, left: str) -> None:
        self._printed_s = time.monotonic()
        if not self._console.is_terminal:
            self._console.print(
                f"{self._title}: {self._done}/{self._tasks} results, "
                f"{_spell(self._printed_s - self._begin_s)} elapsed, {left} left",
                highlight=False,
                soft_wrap=True,
            )


def _spell(seconds: float) -> str:
    """A time as minutes and seconds, or hours and minutes."""
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d} min"
    return f"{whole // 3600}:{whole % 3600 // 60:02d} h"
