"""Compute the results of a reproduction that are missing, job by job."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import BrokenExecutor, Executor, as_completed
from contextlib import AbstractContextManager

from rich.console import Console

from macontrol.config.model.errors import MacontrolError
from macontrol.sim.research.jobs import plan_jobs, run_job
from macontrol.sim.research.progress import meter, spell
from macontrol.sim.research.store import Results
from macontrol.sim.research.tasks import Task


def complete(
    tasks: Iterable[Task],
    results: Results,
    engine: Callable[[], AbstractContextManager[Executor]],
    *,
    workers: int,
    console: Console,
    title: str = "reproduction",
) -> int:
    """Compute the missing results; return their number.

    Every result is stored as soon as its job is finished, so that an interruption loses only the
    jobs in progress.
    """
    tasks = list(tasks)
    missing = results.missing(tasks)
    wanted = len({task.key for task in tasks})
    if len(missing) < wanted:
        console.print(f"{wanted - len(missing)} of {wanted} results exist already")
    if not missing:
        return 0
    jobs = plan_jobs(missing)
    expected = sum(job.seconds for job in jobs)
    console.print(
        f"{len(missing)} results to compute in {len(jobs)} jobs, "
        f"roughly {spell(expected / workers)} on {workers} workers",
        highlight=False,
    )
    try:
        with (
            engine() as executor,
            meter(
                console, title, tasks=len(missing), seconds=expected, workers=workers
            ) as progress,
        ):
            pending = {executor.submit(run_job, job): job for job in jobs}
            for future in as_completed(pending):
                for key, result in future.result().items():
                    results.keep(key, result)
                job = pending.pop(future)
                progress.advance(len(job.tasks), job.seconds)
    except BrokenExecutor as error:
        raise MacontrolError(
            f"a worker process died ({error}), perhaps for lack of memory",
            "run the same command again to continue, with fewer --jobs if memory is short",
        ) from error
    return len(missing)
