"""The daemon on the virtual bench: real processes, a real pseudo-terminal, a real socket."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from support.operated import MACONTROL, VirtualBench, pipe_of


class Bench(VirtualBench):
    """A virtual bench that gets faults on its standard input, and its controller."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.folder = folder
        self.environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}

    def start_controller(self, *options: str) -> subprocess.Popen[str]:
        command = [*MACONTROL, *self.place, "--log", "json"]
        command += ["--set", "physical.region_length=0.5", "--set", "survey.samples=3", *options]
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
        )


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    virtual = Bench(tmp_path)
    try:
        yield virtual
    finally:
        virtual.close()


def _follow(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    for line in pipe_of(process.stdout):
        yield json.loads(line)


def test_it_runs_and_a_reset_board_is_homed_before_it_moves_again(bench: Bench) -> None:
    process = bench.start_controller("--cold", "--yes", "--slots", "20")
    events: list[dict[str, Any]] = []
    with process:
        for event in _follow(process):
            events.append(event)
            if event["event"] == "start":
                bench.do("reset")
        errors = pipe_of(process.stderr).read()
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
            errors = pipe_of(process.stderr).read()
        assert process.returncode == 0, errors
        details.append([event.get("detail", "") for event in events])
    first, second = details
    assert any("walking the rail, 3 positions" in detail for detail in first)
    assert any("3 samples from" in detail for detail in second)
    assert any("another config" in detail for detail in second)
    assert not any("walking the rail" in detail for detail in second)


def shown_position(output: str) -> float:
    return float(output.splitlines()[-1].split("λ")[0].split()[-1])


def test_goto_and_jog_open_a_bench_that_no_daemon_has(bench: Bench) -> None:
    words = [*bench.place, "--yes", "--set", "physical.region_length=0.5"]
    words += ["--set", "probe.noise_floor=-40.0"]
    gone = subprocess.run(
        [*MACONTROL, "goto", "0.3", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=bench.environment,
        check=False,
        timeout=120,
    )
    assert gone.returncode == 0, gone.stderr
    assert shown_position(gone.stdout) == pytest.approx(0.3, abs=1e-3)
    last = gone.stdout.splitlines()[-1]
    assert "dBFS" in last
    assert "clipped" in last
    controller, terminal = pty.openpty()
    with (
        subprocess.Popen(
            [*MACONTROL, "jog", *words],
            stdin=terminal,
            stdout=terminal,
            stderr=subprocess.STDOUT,
            env={**bench.environment, "COLUMNS": "200"},
            start_new_session=True,
        ) as process,
        ExitStack() as closing,
    ):
        closing.callback(process.kill)
        os.close(terminal)
        seen = ""

        def read_until(text: str) -> None:
            nonlocal seen
            while text not in seen:
                try:
                    seen += os.read(controller, 4096).decode(errors="replace")
                except OSError:  # it has ended
                    pytest.fail(f"no {text!r} in {seen!r}")

        read_until("step")  # a reading where it was homed
        os.write(controller, b"0.2\n")
        read_until("0.200 λ")
        os.write(controller, b"-10mm\n")
        at_mm = 0.2 * 124.9135 - 10
        read_until(f"{at_mm / 124.9135:.3f} λ")
        os.write(controller, b"7\n")
        read_until("off the rail")
        os.write(controller, b"\x1b[D" * 3)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(30) == 130
    os.close(controller)
