"""The oracle of a running simulated run: the helper process, and who starts and ends it."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from macontrol.cli import main
from macontrol.dashboard import live_oracle
from macontrol.dashboard.live_oracle import LiveOracle
from macontrol.helper_process import python_module
from macontrol.sim.research.oracle import oracle_path, oracle_value
from macontrol.sim.world.rewardmap import simulate_map
from support.sample_run import write_run

SLOTS = 300
HELPER = python_module("macontrol.dashboard.oracle_helper")
PATIENCE_S = 60


@pytest.fixture(autouse=True)
def full_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    """A helper of low priority takes too long on a busy computer."""
    monkeypatch.setattr(live_oracle, "_NICENESS", 0)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("run") / "run.sqlite"
    words = ["--backend", "sim", "--fast", "--slots", str(SLOTS), "--log", "text"]
    assert main([*words, "--run", str(path), "--seed", "4"]) == 0
    return path


def answers(path: Path, text: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [*HELPER, str(path)],
        input=text,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_helper_answers_with_the_oracle_of_the_slots_so_far(run: Path) -> None:
    from macontrol.config import load_config

    config = load_config()
    rewards = simulate_map(config, seed=4, slots=SLOTS).reward
    for slot in (1, 150):
        found = answers(run, f"{slot}\n" * 40)[-1]  # a busy computer does it in several steps
        path = oracle_path(rewards[:slot], config)
        assert found["slot"] == found["wanted"] == slot
        assert found["net"] * slot == pytest.approx(oracle_value(rewards[:slot], config)[0])
        assert found["mean"] == pytest.approx(rewards[range(slot), path.index].mean())
        assert found["ends"] == ([1] if slot == 1 else [100, 150])
        assert found["position"][-1] == pytest.approx(path.position[-1], abs=1e-4)


def test_a_long_run_is_computed_in_steps(run: Path) -> None:
    first, second = answers(run, "100000000\n100000000\n")
    assert 0 < first["slot"] < second["slot"] < second["wanted"] == 100_000_000


@pytest.mark.parametrize(
    ("key", "value"),
    [("backend", "serial"), ("version", "0.0.1"), ("resumed_from", "a.sqlite")],
)
def test_a_world_that_cannot_be_computed_again_has_no_oracle(
    tmp_path: Path, key: str, value: str
) -> None:
    path = write_run(tmp_path / "run.sqlite", range(1, 5))
    assert answers(path, "5\n")[0]["slot"] >= 1
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE header SET value = ? WHERE key = ?", (json.dumps(value), key))
    (found,) = answers(path, "5\n")
    assert list(found) == ["problem"]


def follow(steps: Callable[[LiveOracle], Any]) -> Any:
    async def work() -> Any:
        oracle = LiveOracle()
        try:
            return await asyncio.wait_for(steps(oracle), PATIENCE_S)
        finally:
            await oracle.close()
            assert LiveOracle.helpers == 0

    return asyncio.run(work())


def test_it_follows_the_run_while_a_page_watches(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_oracle, "INTERVAL_S", 0.02)
    monkeypatch.setattr(live_oracle, "_KEPT_S", 0.1)

    async def steps(oracle: LiveOracle) -> None:
        oracle.refresh(run, 50, is_watched=False)
        assert LiveOracle.helpers == 0
        for slot in (50, 250):
            while oracle.found is None or oracle.found["slot"] != slot:
                oracle.refresh(run, slot, is_watched=True)
                await asyncio.sleep(0.01)
            assert LiveOracle.helpers == 1
        assert oracle.number >= 2
        while LiveOracle.helpers:
            oracle.refresh(run, 250, is_watched=False)
            await asyncio.sleep(0.01)
        assert oracle.found is not None
        oracle.refresh(None, 250, is_watched=True)
        assert oracle.found is None

    follow(steps)


def test_a_run_without_an_oracle_is_asked_once(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run.sqlite", range(1, 5))
    path.write_bytes(b"no run file")

    async def steps(oracle: LiveOracle) -> int:
        started, before = 0, 0
        while before or not started:
            oracle.refresh(path, 4, is_watched=True)
            await asyncio.sleep(0.01)
            started += LiveOracle.helpers > before
            before = LiveOracle.helpers
        for _ in range(20):
            oracle.refresh(path, 4, is_watched=True)
            await asyncio.sleep(0.01)
            assert LiveOracle.helpers == 0
        assert oracle.found is None
        return started

    assert follow(steps) == 1


def test_at_most_a_few_helpers_run(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_oracle, "_MOST_HELPERS", 1)

    async def steps(oracle: LiveOracle) -> None:
        other = LiveOracle()
        oracle.refresh(run, 10, is_watched=True)
        await asyncio.sleep(0.05)
        other.refresh(run, 10, is_watched=True)
        await asyncio.sleep(0.05)
        assert LiveOracle.helpers == 1
        await other.close()

    follow(steps)
