"""Results are identical to the bit on every engine, and a reproduction can be resumed."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from macontrol.config import Config
from macontrol.sim.research.campaign import Results, complete
from macontrol.sim.research.executor import ProcessPool, dask_cluster
from macontrol.sim.research.figures import FIGURES, Setting
from macontrol.sim.research.tasks import Task

Engine = Callable[[], AbstractContextManager[Executor]]


class Serial(Executor):
    """Runs every job in this process; job `last` and later ones are interrupted."""

    def __init__(self, last: int | None = None) -> None:
        self.jobs = 0
        self._last = last

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.jobs += 1
        if self._last is not None and self.jobs > self._last:
            future.set_exception(KeyboardInterrupt())
        else:
            future.set_result(fn(*args, **kwargs))
        return future


def engine(executor: Serial) -> Engine:
    @contextmanager
    def entered() -> Iterator[Executor]:
        yield executor

    return entered


def run(tasks: list[Task], folder: Path, where: Engine) -> int:
    quiet = Console(file=io.StringIO())
    return complete(tasks, Results(folder), where, workers=2, console=quiet)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def tasks(paper: Config) -> list[Task]:
    setting = Setting(paper, 2, 150)
    return [task for name in ("main", "kernel") for task in FIGURES[name].tasks(setting)]


def test_all_engines_give_the_same_bits(tasks: list[Task], tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    engines: dict[str, Engine] = {
        "serial": engine(Serial()),
        "processes": lambda: ProcessPool(2),
        "dask": lambda: dask_cluster(2, None),
    }
    for name, where in engines.items():
        run(tasks, tmp_path / name, where)
    serial = content(tmp_path / "serial")
    assert len(serial) == len({task.key for task in tasks})
    assert content(tmp_path / "processes") == serial
    assert content(tmp_path / "dask") == serial


def test_an_interrupted_reproduction_continues_with_its_results(
    tasks: list[Task], tmp_path: Path
) -> None:
    whole = Serial()
    run(tasks, tmp_path / "whole", engine(whole))
    with pytest.raises(KeyboardInterrupt):
        run(tasks, tmp_path / "cut", engine(Serial(last=whole.jobs - 2)))
    kept = content(tmp_path / "cut")
    rest = run(tasks, tmp_path / "cut", engine(Serial()))
    assert rest == len({task.key for task in tasks}) - len(kept)
    assert content(tmp_path / "cut") == content(tmp_path / "whole")


def test_an_existing_result_is_not_computed_again(tasks: list[Task], tmp_path: Path) -> None:
    run(tasks, tmp_path, engine(Serial()))
    again = Serial()
    assert run(tasks, tmp_path, engine(again)) == 0
    assert again.jobs == 0


@pytest.mark.parametrize("damage", ["", '{"value": 1', "[1]"])
def test_a_damaged_result_is_computed_again(tasks: list[Task], tmp_path: Path, damage: str) -> None:
    run(tasks, tmp_path, engine(Serial()))
    before = content(tmp_path)
    (tmp_path / next(iter(before))).write_text(damage)
    assert run(tasks, tmp_path, engine(Serial())) == 1
    assert content(tmp_path) == before
