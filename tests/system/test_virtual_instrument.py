"""The daemon with a stage and a SCPI instrument of the virtual bench: run, check, faults."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from macontrol.config.model.errors import DataError
from macontrol.controller.recording.runfile import read_run
from support.channel_errors import channel_errors
from support.waiting import wait_until

pytestmark = pytest.mark.any_user

SEED = 3
MACONTROL = [sys.executable, "-m", "macontrol"]
# More time to move than the preset has, because a busy machine answers late.
SETTINGS = ["physical.actuation_time_s=0.16", "physical.slot_duration_s=0.3"]
SETTINGS += ["physical.region_length=0.5", "survey.samples=3"]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short name, because the path of a socket has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="scpi-") as name:
        yield Path(name)


@contextmanager
def virtual_bench(
    folder: Path, *settings: str
) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """A bench that drifts from slot 1, and the words after `macontrol` that it prints."""
    words = [word for setting in (*SETTINGS, *settings) for word in ("--set", setting)]
    command = [*MACONTROL, "virtual-bench", "--probe", "scpi", "--radio", "127.0.0.1:0"]
    command += ["--seed", str(SEED), "--link", str(folder / "stage"), *words]
    command += ["--notify", str(folder / "ready")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(folder)
    ) as bench:
        try:
            assert bench.stdout is not None
            assert "instrument on 127.0.0.1:" in bench.stdout.readline()
            printed = shlex.split(bench.stdout.readline())
            assert printed[-1].startswith("scpi://127.0.0.1:")
            yield bench, printed[2:]
        finally:
            bench.communicate("quit\n", timeout=20)


def environment(folder: Path) -> dict[str, str]:
    own = {"XDG_STATE_HOME": str(folder / "state"), "NOTIFY_SOCKET": str(folder / "ready")}
    return {**os.environ, **own}


def macontrol(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*MACONTROL, *words],
        capture_output=True,
        text=True,
        check=False,
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        timeout=120,
    )


# A marker reads one point, whose noise is that of the emulated instrument.
@pytest.mark.parametrize(("commands", "rms"), [("zero-span", 0.05), ("s21", 0.05), ("marker", 0.3)])
def test_a_run_with_an_instrument_measures_the_channel(
    folder: Path, commands: str, rms: float
) -> None:
    run_file = folder / "run.sqlite"
    with virtual_bench(folder, f"probe.scpi.commands={commands}") as (_, words):
        done = macontrol(folder, *words, "--cold", "--slots", "40", "--run", str(run_file))
    assert done.returncode == 0, done.stderr
    errors = channel_errors(read_run(run_file), SEED)
    assert len(errors) >= 20
    assert abs(np.mean(errors)) < rms / 2
    assert np.sqrt(np.mean(np.square(errors))) < rms


@pytest.mark.fault("instrument-lost")
def test_a_run_survives_a_dropped_and_a_stalled_instrument(folder: Path) -> None:
    with virtual_bench(folder) as (bench, words):
        run = folder / "run.sqlite"
        command = [*MACONTROL, *words, "--cold", "--slots", "60", "--run", str(run)]
        with subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(folder),
            stdin=subprocess.DEVNULL,
        ) as daemon:
            wait_until(lambda: slots_in(run) >= 5 or daemon.poll() is not None)
            assert bench.stdin is not None
            bench.stdin.write("drop\n")
            bench.stdin.flush()
            wait_until(lambda: slots_in(run) >= 25 or daemon.poll() is not None)
            bench.stdin.write("stall 1\n")
            bench.stdin.flush()
            _, errors = daemon.communicate(timeout=100)
    assert daemon.returncode == 0, errors
    found = read_run(run)
    assert np.isfinite(found.slots["reward"]).sum() >= 30
    assert np.isnan(found.slots["reward"]).sum() >= 3


def slots_in(run: Path) -> int:
    """How many slots a run has recorded so far."""
    if not run.exists():
        return 0
    try:
        return len(read_run(run).slots["reward"])
    except DataError:
        return 0


@pytest.mark.fault("sweep-too-long")
def test_a_sweep_that_is_longer_than_a_slot_is_refused_with_the_fix(folder: Path) -> None:
    with virtual_bench(folder, "probe.scpi.sweep_s=0.5") as (_, words):
        done = macontrol(folder, *words, "--cold", "--slots", "5")
    assert done.returncode == 69
    assert "a measurement takes 5" in done.stderr
    assert "set physical.slot_duration_s to at least" in done.stderr


def check(folder: Path, *words: str) -> dict[str, str]:
    """The lines of a check, by their subject."""
    done = macontrol(folder, "check", *(word for word in words if word != "--yes"))
    lines = re.findall(r"^(pass|note|FAIL|skip) +(.*?) {2,}(.*)$", done.stdout, re.MULTILINE)
    return {subject: f"{verdict} {detail}" for verdict, subject, detail in lines}


def test_check_examines_the_instrument(folder: Path) -> None:
    with virtual_bench(folder) as (_, words):
        found = check(folder, *words)
        too_long = check(folder, *words, "--set", "probe.scpi.sweep_s=0.5")
    absent = check(folder, *words)
    assert found["instrument"].startswith("pass scpi://127.0.0.1:")
    assert "macontrol,Virtual Instrument" in found["instrument"]
    assert found["sweep time"].startswith("pass")
    assert re.match(r"pass -\d+\.\d dBm", found["level"])
    assert re.match(r"pass -(89|90)\.\d dBm", found["noise floor"])
    assert too_long["sweep time"].startswith("FAIL a measurement takes 5")
    assert absent["instrument"].startswith("FAIL")
    assert absent["level"].startswith("skip")
