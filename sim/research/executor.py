"""Where jobs run: in a pool of processes on this machine, or on a Dask cluster.

Both are a `concurrent.futures.Executor`, and a job does not depend on either, so that results on
similar machines are identical to the bit. After an interruption or an error no worker process
remains.
"""

from __future__ import annotations

import importlib
import logging
import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, TypeVar, cast

from macontrol.config.model.errors import HardwareError, UsageError
from macontrol.config.model.suggestion import pip_install

T = TypeVar("T")

CONNECT_TIMEOUT_S = 10.0
_SAFE_PATH = "PYTHONSAFEPATH"


def available_cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class ProcessPool(ThreadPoolExecutor):
    """Runs calls in worker processes, with one pipe per worker.

    `ProcessPoolExecutor` has one pipe for the answers of all workers. If a worker is killed while
    it sends, half a message remains there, and the pool waits for the rest for ever. A pipe per
    worker ends with the worker.
    """

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        # Spawned, because a fork would inherit the threads and the state of this process.
        context = multiprocessing.get_context("spawn")
        self._processes = []
        self._idle: SimpleQueue[Connection] = SimpleQueue()
        for _ in range(workers):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs,), daemon=True)
            with _safe_path():
                process.start()
            theirs.close()  # so that ours ends when the process does
            self._processes.append(process)
            self._idle.put(ours)

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        return super().submit(self._call, fn, args, kwargs)

    def __exit__(self, error: type[BaseException] | None, *rest: object) -> None:
        """After an exception end the workers at once. Calls in progress raise BrokenExecutor."""
        if error is not None:
            for process in self._processes:
                process.terminate()
        self.shutdown(wait=True, cancel_futures=True)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        super().shutdown(wait, cancel_futures=cancel_futures)
        while not self._idle.empty():
            self._idle.get().close()
        if wait:
            for process in self._processes:
                process.join()

    def _call(self, fn: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
        worker = self._idle.get()  # as many as there are threads
        try:
            worker.send((fn, args, kwargs))
            result, error = worker.recv()
        except (EOFError, OSError) as lost:
            raise BrokenExecutor("the connection to a worker process ended") from lost
        finally:
            self._idle.put(worker)
        if error is not None:
            raise error
        return cast(T, result)


def _serve(connection: Connection) -> None:
    """Answer calls until the pool closes the connection, or the parent ends."""
    _ignore_interrupt()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            fn, args, kwargs = connection.recv()
        except EOFError:
            return
        try:
            answer: tuple[Any, Exception | None] = (fn(*args, **kwargs), None)
        except Exception as error:
            error.add_note(f"in a worker process:\n{traceback.format_exc()}")
            answer = (None, error)
        connection.send(answer)


@contextmanager
def _safe_path() -> Iterator[None]:
    """Python processes that start in this context import nothing from the working directory."""
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SAFE_PATH]
        else:
            os.environ[_SAFE_PATH] = before


def _ignore_interrupt() -> None:
    """Ignore Ctrl-C, which reaches all processes of a terminal: the parent handles it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _end_with_parent() -> None:
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)


@contextmanager
def dask_cluster(workers: int, scheduler: str | None) -> Iterator[Executor]:
    """The workers of a Dask scheduler, or of a local cluster if there is no scheduler."""
    try:
        # Dask has no types: import it as Any.
        distributed: Any = importlib.import_module("distributed")
    except ImportError:
        raise UsageError(
            "--engine dask needs Dask, which is not installed", pip_install("dask[distributed]")
        ) from None
    with ExitStack() as stack:
        stack.enter_context(_safe_path())
        if scheduler is None:
            cluster = stack.enter_context(
                distributed.LocalCluster(
                    n_workers=workers,
                    threads_per_worker=1,
                    processes=True,
                    dashboard_address=None,
                    silence_logs=logging.ERROR,
                )
            )
            client = stack.enter_context(distributed.Client(cluster))
            client.run(_ignore_interrupt)
        else:
            try:
                client = stack.enter_context(
                    distributed.Client(scheduler, timeout=CONNECT_TIMEOUT_S)
                )
            except (OSError, ValueError, TimeoutError) as error:
                raise HardwareError(
                    f"--scheduler {scheduler}: no Dask scheduler answers ({error})",
                    "start one with `dask scheduler`, and workers with `dask worker`, or omit "
                    "--scheduler to run a cluster on this machine",
                ) from None
        executor = client.get_executor(pure=False)
        try:
            yield executor
        finally:
            with suppress(Exception):
                executor.shutdown(wait=False)
