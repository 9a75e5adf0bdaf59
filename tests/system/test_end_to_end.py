"""`macontrol bench end-to-end` for a few slots: its output, and that it leaves nothing behind.

Whether slots are late is not tested, because test machines are busy.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from macontrol.commands.bench.comparison import Comparison
from macontrol.commands.bench.end_to_end import bars_of

pytestmark = pytest.mark.any_user

COMMAND = [sys.executable, "-m", "macontrol", "bench", "end-to-end"]
# More time to move than the preset has, and a shorter rail.
QUICK = ["physical.actuation_time_s=0.16", "physical.slot_duration_s=0.3"]
QUICK += ["physical.region_length=0.5", "survey.samples=5"]
SETTINGS = [word for setting in QUICK for word in ("--set", setting)]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short name, because the path of a socket has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="e2e-") as name:
        yield Path(name)


def _environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(folder)}


def test_the_virtual_bench_has_the_world_of_the_simulated_bench(folder: Path) -> None:
    kept = folder / "kept"
    command = [*COMMAND, "--seeds", "3", "--slots", "24", "--json", "--keep", str(kept), *SETTINGS]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=_environment(folder)
    )
    assert done.returncode in (0, 1), done.stderr
    found = json.loads(done.stdout)
    (seed,) = found["seeds"]
    assert (seed["seed"], seed["slots"]) == (3, 24)
    assert len(found["bars"]) == 4
    # In different worlds, slots or noise the rewards would differ by tenths.
    assert abs(seed["probe_bias"]) < 0.02
    assert seed["probe_error"] < 0.05
    assert 0 < seed["fixed"] <= 5
    assert abs(seed["lateness"]) < 0.5
    assert list(folder.iterdir()) == [kept]
    assert {file.name for file in kept.iterdir()} == {"3-serial.sqlite", "3-sim.sqlite"}


def test_an_interruption_ends_all_that_was_started(folder: Path) -> None:
    command = [*COMMAND, "--seeds", "1", "2", "--slots", "5000", *SETTINGS]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=_environment(folder),
        start_new_session=True,
    ) as process:
        try:
            deadline = time.monotonic() + 60
            while len(list(folder.glob("*/*/notify"))) < 2 and time.monotonic() < deadline:
                time.sleep(0.1)
            assert len(list(folder.glob("*/*/notify"))) == 2
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=40)
            assert process.returncode == 130
            with pytest.raises(ProcessLookupError):  # no process of its group is left
                os.killpg(process.pid, 0)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    assert list(folder.iterdir()) == []


def test_the_refusal_of_a_config_by_a_child_is_shown(folder: Path) -> None:
    command = [*COMMAND, "--seeds", "1", "--slots", "5", *SETTINGS]
    command += ["--set", "physical.command_latency_s=0", "--set", "physical.actuation_time_s=0.045"]
    command += ["--set", "physical.acceleration_m_per_s2=9"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=_environment(folder)
    )
    assert done.returncode == 70
    assert "physical.actuation_time_s" in done.stderr


def test_bars_use_the_mean_reward_and_the_worst_seed() -> None:
    good = Comparison(
        seed=1, slots=2000, late=3, late_rewards=1900, without_reward=3, faults=0,
        serial=2.0, sim=1.95, fixed=1.0, lateness=0.0, chance=0.01,
        probe_bias=1e-4, probe_error=0.003,
    )  # fmt: skip
    assert [bar.holds for bar in bars_of([good])] == [True] * 4
    late = Comparison(**{**vars(good), "late": 21})
    assert [bar.holds for bar in bars_of([good, late])] == [False, True, True, True]
    poor = Comparison(**{**vars(good), "serial": 1.0, "probe_bias": -0.02})
    assert [bar.holds for bar in bars_of([poor])] == [True, False, False, False]
    # Seven percent less on one of two seeds is within five percent on average.
    unlucky = Comparison(**{**vars(good), "serial": 1.81})
    assert [bar.holds for bar in bars_of([good, unlucky])] == [True] * 4
