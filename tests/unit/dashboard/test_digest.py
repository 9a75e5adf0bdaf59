"""What the page shows of a run file, compared with the run itself."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from base64 import b64decode
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from macontrol.cli import main
from macontrol.controller.policies.registry import make_policy
from macontrol.controller.recording.runfile import read_run
from macontrol.dashboard import digest as digest_module
from macontrol.dashboard.digest import FRAMES, digest
from macontrol.sim.research.oracle import oracle_value
from macontrol.sim.world.rewardmap import simulate_map
from support.sample_run import CONFIG, write_run

SLOTS = 900


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("run") / "run.sqlite"
    words = ["--backend", "sim", "--fast", "--slots", str(SLOTS), "--log", "text"]
    assert main([*words, "--run", str(path), "--seed", "4"]) == 0
    return path


@pytest.fixture(scope="module")
def found(run: Path) -> dict[str, Any]:
    return digest(run)


def unpacked(text: str, rows: int) -> NDArray[np.float64]:
    values = np.frombuffer(b64decode(text), "<i2").astype(float)
    values[values == -32768] = np.nan
    return values.reshape(rows, -1) / 1000


def test_the_series_are_those_of_the_run(run: Path, found: dict[str, Any]) -> None:
    slots, series = read_run(run).slots, found["series"]
    assert series["slot"] == slots["slot"].tolist()
    np.testing.assert_allclose(series["position"], slots["position"], atol=1e-4)
    np.testing.assert_allclose(series["reward"], slots["reward"], atol=1e-4)
    assert found["summary"]["slots"] == SLOTS
    assert found["summary"]["reward"] == pytest.approx(slots["reward"].mean())
    assert found["summary"]["travel"] == pytest.approx(np.abs(np.diff(slots["position"])).sum())
    assert found["summary"]["switches"] == slots["switched"].sum()


def test_the_posterior_is_that_of_the_run(run: Path, found: dict[str, Any]) -> None:
    """Compared with a policy that has decided in every slot."""
    recorded = read_run(run)
    policy: Any = make_policy(recorded.header.config, recorded.header.survey)  # type: ignore[arg-type]
    rows, frames = found["rows"], found["frames"]
    mean = unpacked(frames["mean"], FRAMES)
    deviation = unpacked(frames["deviation"], FRAMES)
    surface = unpacked(frames["acquisition"], FRAMES)
    places = [policy.posterior.grid.nearest(x) for x in frames["points"]]
    slots = recorded.slots
    compared = 0
    for slot, position, reward in zip(
        slots["slot"], slots["position"], slots["reward"], strict=True
    ):
        policy.observe(int(slot), float(position), float(reward))
        policy.decide(int(slot), float(position))
        if slot in rows["slot"]:
            number = rows["slot"].index(slot)
            np.testing.assert_allclose(mean[number], policy.posterior.mean[places], atol=6e-4)
            expected = np.sqrt(policy.posterior.variance[places])
            np.testing.assert_allclose(deviation[number], expected, atol=6e-4)
            np.testing.assert_allclose(surface[number], policy.surface[places], atol=6e-4)
            compared += 1
    assert compared == FRAMES


def test_a_simulated_run_is_compared_with_fixed_antenna_and_oracle(
    run: Path, found: dict[str, Any]
) -> None:
    config = read_run(run).header.config
    world = simulate_map(config, 4, SLOTS)
    middle = config.grid.nearest(config.physical.x_0)
    np.testing.assert_allclose(found["fixed"], world.reward[:, middle], atol=1e-4)
    assert found["fixed_mean"] == pytest.approx(world.reward[:, middle].mean())
    steps = np.abs(np.diff([config.physical.x_0, *found["oracle_position"]]))
    net = found["oracle_mean"] * SLOTS - config.reward.movement_cost * steps.sum()
    assert net == pytest.approx(float(oracle_value(world.reward, config)[0]), rel=1e-4)
    truth = unpacked(found["truth"], FRAMES)
    rows = np.array(found["rows"]["slot"]) - 1
    places = [config.grid.nearest(x) for x in found["truth_points"]]
    np.testing.assert_allclose(truth, world.reward[rows][:, places], atol=6e-4)


def test_the_end_of_a_run_alone(run: Path) -> None:
    found = digest(run, 1.0)
    slots = found["series"]["slot"]
    assert (slots[0], slots[-1]) == (SLOTS - 200, SLOTS)
    assert "oracle" not in found
    last = unpacked(found["frames"]["mean"], len(found["rows"]["slot"]))[-1]
    whole = unpacked(digest(run)["frames"]["mean"], FRAMES)[-1]
    np.testing.assert_allclose(last, whole, atol=2e-3)


def test_a_long_run_is_read_in_parts(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not all of it, but from its beginning to its end."""
    monkeypatch.setattr(digest_module, "_LONGEST_COMPLETE", 500)
    monkeypatch.setattr(digest_module, "_BUCKETS", 30)
    monkeypatch.setattr(digest_module, "_ROWS_PER_BLOCK", 4)
    found = digest(run)
    assert "summary" not in found
    assert len(found["series"]["slot"]) == 30
    assert found["series"]["slot"][0] <= 4
    assert found["series"]["slot"][-1] >= SLOTS - 30
    assert len(found["frames"]["mean"]) > 0


def test_a_policy_without_a_posterior_has_no_frames(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    words = ["--backend", "sim", "--fast", "--slots", "50", "--log", "text", "--policy", "fixed"]
    assert main([*words, "--run", str(path)]) == 0
    found = digest(path)
    assert found["frames"] is None
    assert len(found["rows"]["slot"]) == 50
    assert found["truth"]


def test_slots_without_a_reward_are_gaps(tmp_path: Path) -> None:
    found = digest(write_run(tmp_path / "run.sqlite", range(1, 41)))
    assert found["series"]["reward"][9] is None
    assert found["series"]["reward"][29] == pytest.approx(30 / 7, abs=1e-4)
    assert found["summary"]["invalid"] == 3
    assert found["facts"]["length"] == CONFIG.physical.region_length


def test_a_problem_is_an_answer(tmp_path: Path) -> None:
    (tmp_path / "run.sqlite").write_bytes(b"no database" * 100)
    done = subprocess.run(
        [sys.executable, "-m", "macontrol.dashboard.digest", str(tmp_path / "run.sqlite")],
        capture_output=True,
        check=True,
    )
    assert "not a run file" in json.loads(done.stdout)["problem"]


def test_what_the_server_loads_needs_no_numpy() -> None:
    """So that its process stays small."""
    code = "import sys, macontrol.dashboard.server; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_event_has_the_text_of_the_log(tmp_path: Path) -> None:
    """A damaged value is left out."""
    path = write_run(tmp_path / "run.sqlite", range(1, 5))
    with closing(sqlite3.connect(path)) as file, file:
        rows = [(3, "missed-slots", "a stall", 2), (4, "missed-slots", "another", "many")]
        file.executemany(
            "INSERT INTO events (slot, time_s, kind, detail, value) VALUES (?, 7, ?, ?, ?)", rows
        )
    *_, whole, damaged = digest(path)["events"]
    assert whole["text"] == "slot 3: missed-slots: a stall, 2 slots"
    assert (damaged["value"], damaged["text"]) == (None, "slot 4: missed-slots: another")
