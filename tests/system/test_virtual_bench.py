"""The daemon on the virtual bench: real processes, a real pseudo-terminal, a real socket."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest

MACONTROL = [sys.executable, "-m", "macontrol"]


class Bench:
    """A `macontrol virtual-bench` process that gets faults on its standard input."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
        self.port = folder / "stage"
        command = [*MACONTROL, "virtual-bench", "--link", str(self.port), "--still", "5"]
        command += ["--rtl-tcp", "127.0.0.1:0", "--seed", "3"]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=self.environment,
        )
        first = _pipe(self._process.stdout).readline()
        self.radio = first.split("radio on ")[1].split(";")[0]

    def do(self, command: str) -> None:
        pipe = _pipe(self._process.stdin)
        pipe.write(command + "\n")
        pipe.flush()

    def close(self) -> None:
        self._process.communicate("quit\n", timeout=20)

    def start_controller(self, *options: str) -> subprocess.Popen[str]:
        command = [*MACONTROL, "--backend", "serial", "--preset", "lab-2g4-grbl"]
        command += ["--log", "json", "--port", str(self.port), "--probe", f"rtl_tcp://{self.radio}"]
        # More time to move than the preset has, because a busy machine answers late.
        command += ["--set", "physical.actuation_time_s=0.16"]
        command += ["--set", "physical.slot_duration_s=0.3"]
        command += ["--set", "physical.region_length=0.5", "--set", "survey.samples=3", *options]
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
        )


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    virtual = Bench(tmp_path)
    try:
        yield virtual
    finally:
        virtual.close()


def _follow(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    for line in _pipe(process.stdout):
        yield json.loads(line)


def test_it_runs_and_a_reset_board_is_homed_before_it_moves_again(bench: Bench) -> None:
    process = bench.start_controller("--cold", "--yes", "--slots", "20")
    events: list[dict[str, Any]] = []
    with process:
        for event in _follow(process):
            events.append(event)
            if event["event"] == "start":
                bench.do("reset")
        errors = _pipe(process.stderr).read()
    assert process.returncode == 0, errors
    kinds = [event["event"] for event in events]
    fault = next(event for event in events if event["event"] == "stage-fault")
    assert "reset" in fault["detail"]
    assert kinds.index("recovery") > kinds.index("stage-fault")
    summary = events[-1]
    assert summary["slots"] == 20
    assert summary["missed_slots"] > 0  # homing takes seconds, and those slots are counted
    assert summary["reward_per_slot"] > 0.1
    assert all(verdict["holds"] is not False for verdict in summary["theory"].values())


@pytest.mark.fault("homing-without-consent")
def test_without_permission_nothing_moves(bench: Bench) -> None:
    process = bench.start_controller("--slots", "5")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 78  # a service is not restarted for it
    assert "stage.homing" in errors


@pytest.mark.fault("slot-plan-too-fast")
def test_an_impossible_slot_plan_is_refused_with_a_possible_one(bench: Bench) -> None:
    process = bench.start_controller(
        "--cold", "--yes", "--slots", "5", "--set", "physical.command_latency_s=0",
        "--set", "physical.actuation_time_s=0.05", "--set", "physical.acceleration_m_per_s2=9",
    )  # fmt: skip
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 78
    assert "physical.actuation_time_s to at least" in errors


def test_a_fresh_survey_of_an_earlier_run_is_used_again(
    bench: Bench,
) -> None:
    details = []
    # A run of another policy cannot continue the first one, but uses its survey.
    for policy in ("moveucb", "epsilon-greedy"):
        process = bench.start_controller(
            "--yes", "--resume", "--slots", "5", "--set", f"algorithm.policy={policy}"
        )
        with process:
            events = list(_follow(process))
            errors = _pipe(process.stderr).read()
        assert process.returncode == 0, errors
        details.append([event.get("detail", "") for event in events])
    first, second = details
    assert any("walking the rail, 3 positions" in detail for detail in first)
    assert any("3 samples from" in detail for detail in second)
    assert any("another config" in detail for detail in second)
    assert not any("walking the rail" in detail for detail in second)
