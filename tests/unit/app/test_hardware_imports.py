"""A hardware run imports neither the simulator nor the benchmarks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

RUN = """
import sys
from macontrol.cli import main
code = main({arguments!r})
print(code, *sorted(name for name in sys.modules if name.startswith("macontrol.")))
"""


def modules_of(arguments: list[str], folder: Path) -> tuple[int, list[str]]:
    """The exit code of a command, and the modules of macontrol that it imported."""
    environment = {"XDG_STATE_HOME": str(folder), "RUNTIME_DIRECTORY": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", RUN.format(arguments=arguments)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    code, *names = done.stdout.splitlines()[-1].split()
    return int(code), names


@pytest.mark.parametrize("preset", ["lab-2g4-grbl", "lab-5g8-zaber"])
def test_a_hardware_run_imports_no_simulator(tmp_path: Path, preset: str) -> None:
    port = str(tmp_path / "no-such-port")
    words = ["--backend", "serial", "--port", port, "--preset", preset, "--yes", "--log", "text"]
    code, names = modules_of(words, tmp_path)
    assert code == 69  # the port cannot be opened
    assert {"macontrol.daemon", "macontrol.serial_bench", "macontrol.controller.runtime.loop"} <= {
        *names
    }
    assert [name for name in names if name.startswith("macontrol.sim")] == []
    assert [name for name in names if name.startswith("macontrol.commands.bench")] == []


@pytest.mark.parametrize(
    "words",
    ["calibrate --out site.toml", "jog", "goto 1.5", "survey --repeat 3 --out walks.npz"],
)
def test_a_command_that_opens_a_real_bench_imports_no_simulator(
    tmp_path: Path, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    port = ["--backend", "serial", "--port", str(tmp_path / "no-such-port"), "--yes"]
    code, names = modules_of([*words.split(), *port, "--preset", "lab-2g4-grbl"], tmp_path)
    assert code == 69
    assert "macontrol.serial_bench" in names
    assert [name for name in names if name.startswith("macontrol.sim")] == []


def test_a_simulated_run_imports_no_driver_and_no_benchmark(tmp_path: Path) -> None:
    words = ["--backend", "sim", "--fast", "--slots", "3", "--log", "text"]
    code, names = modules_of(words, tmp_path)
    assert code == 0
    assert "macontrol.sim.bench.simulated" in names
    assert "macontrol.serial_bench" not in names
    assert [name for name in names if name.startswith("macontrol.commands.bench")] == []
