"""The pool of worker processes: results, errors, and workers that die."""

from __future__ import annotations

import multiprocessing
import os
import time
from concurrent.futures import BrokenExecutor
from multiprocessing.connection import Connection

import pytest

from macontrol.sim.research.executor import ProcessPool

WITHIN_S = 60.0


def fail(reason: str) -> None:
    raise KeyError(reason)


def die_while_sending() -> bytes:
    def send_half(connection: Connection, message: object) -> None:
        os.write(connection.fileno(), (1000).to_bytes(4, "big") + bytes(500))
        os._exit(1)

    Connection.send = send_half  # type: ignore[assignment]
    return b""


def test_calls_run_in_as_many_other_processes_as_there_are_workers() -> None:
    with ProcessPool(2) as pool:
        seen = {call.result(WITHIN_S) for call in [pool.submit(os.getpid) for _ in range(200)]}
    assert os.getpid() not in seen
    assert 1 <= len(seen) <= 2


def test_an_error_in_a_call_reaches_the_caller_and_the_worker_continues() -> None:
    with ProcessPool(1) as pool:
        before = pool.submit(os.getpid).result(WITHIN_S)
        with pytest.raises(KeyError, match="no such world") as raised:
            pool.submit(fail, "no such world").result(WITHIN_S)
        assert any("in fail" in note for note in raised.value.__notes__)
        assert pool.submit(os.getpid).result(WITHIN_S) == before


def test_the_call_of_a_worker_that_dies_fails() -> None:
    with ProcessPool(1) as pool, pytest.raises(BrokenExecutor):
        pool.submit(os._exit, 1).result(WITHIN_S)


def test_the_call_of_a_worker_that_dies_while_it_sends_fails() -> None:
    with ProcessPool(1) as pool, pytest.raises(BrokenExecutor):
        pool.submit(die_while_sending).result(WITHIN_S)


def leave_with_calls_in_progress() -> None:
    with ProcessPool(2) as pool:
        for call in [pool.submit(os.getpid) for _ in range(4)]:
            call.result(WITHIN_S)
        for _ in range(4):
            pool.submit(time.sleep, 10 * WITHIN_S)
        raise ZeroDivisionError


def test_an_exception_ends_the_workers_at_once() -> None:
    before = set(multiprocessing.active_children())
    began = time.monotonic()
    with pytest.raises(ZeroDivisionError):
        leave_with_calls_in_progress()
    assert time.monotonic() - began < 2 * WITHIN_S
    assert set(multiprocessing.active_children()) <= before
