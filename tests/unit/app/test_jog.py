"""Moving a bench by hand before a run: what is typed, where it goes, what it shows."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from math import nan
from pathlib import Path

import pytest

from macontrol import alignment
from macontrol.alignment import Alignment, Reading, on_rail
from macontrol.cli import main
from macontrol.config import Config
from macontrol.config.model.errors import ProbeError, StageError, UsageError
from macontrol.controller.recording.records import EventKind
from macontrol.controller.runtime.observation import Observation
from macontrol.controller.runtime.stop import StopToken
from macontrol.display.typed import TypedCommands
from macontrol.hal import Measurement
from macontrol.hal.probe import Signal
from support.operated import MACONTROL
from support.scripted_bench import Kept, ScriptedBench, ScriptedProbe


class Keyboard:
    """A terminal, or a pipe, as standard input."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool) -> None:
        self.writer, reader = pty.openpty() if is_terminal else os.pipe()[::-1]
        self._files = [self.writer, reader]
        monkeypatch.setattr(sys, "stdin", os.fdopen(reader, closefd=False))

    def type(self, text: str) -> None:
        os.write(self.writer, text.encode())

    def end(self) -> None:
        os.close(self.writer)
        self._files.remove(self.writer)

    def close(self) -> None:
        for file in self._files:
            os.close(file)


@pytest.fixture
def keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bool], Keyboard]]:
    made: list[Keyboard] = []

    def make(is_terminal: bool) -> Keyboard:
        made.append(Keyboard(monkeypatch, is_terminal=is_terminal))
        return made[-1]

    yield make
    for each in made:
        each.close()


def all_of(typed: TypedCommands) -> list[str]:
    found = []
    while (command := typed.next()) is not None:
        found.append(command)
        if command == "q":
            break
    return found


class TestTyped:
    def test_keys_are_commands_and_words_end_with_enter(
        self, keyboard: Callable[[bool], Keyboard]
    ) -> None:
        keys = keyboard(True)
        with TypedCommands() as typed:
            assert typed.is_terminal
            keys.type("\x1b[C\x1b[D\x1bOA\x1b[B+0.5\nf-2m\x7fmm\n3.")
            assert all_of(typed) == ["right", "left", "up", "down", "+0.5", "f", "-2mm"]
            assert typed.unfinished == "3."
            keys.type("5\r\x1b")
            assert all_of(typed) == ["3.5"]
            keys.type("[Cq")
            assert typed.is_waiting
            assert all_of(typed) == ["right", "q"]

    def test_lines_of_a_pipe_are_commands_and_its_end_is_the_end(
        self, keyboard: Callable[[bool], Keyboard]
    ) -> None:
        pipe = keyboard(False)
        with TypedCommands() as typed:
            assert not typed.is_terminal
            pipe.type("right\n\n+1\n2")
            assert all_of(typed) == ["right", "+1"]
            pipe.type("5mm")
            pipe.end()
            assert all_of(typed) == ["25mm", "q"]


class Moved:
    """An alignment of a scripted bench."""

    def __init__(self, config: Config, *, step_mm: float = 0.0) -> None:
        self.bench = ScriptedBench(config, step_mm=step_mm)
        self.stop, self.kept = StopToken(), Kept()
        self.shown: list[Reading] = []
        self.alignment = Alignment(config, self, self.bench.clock, self.stop, self.kept)

    stage = property(lambda self: self.bench.stage)
    probe = property(lambda self: self.bench.probe)
    identity: dict[str, str] = {}  # noqa: RUF012

    def prior_survey(self, positions_mm: object) -> None:
        return None

    def go(self, position: float, may_move: Callable[[], bool] = lambda: True) -> bool:
        return self.alignment.go_to(position, may_move=may_move, show=self.shown.append)


@pytest.fixture
def moved(paper: Config) -> Moved:
    return Moved(paper)


def test_it_arrives_by_strokes_within_the_region(moved: Moved) -> None:
    wavelength_mm, stroke_mm = moved.bench.wavelength_mm, moved.bench.stroke_mm
    begin_mm = moved.stage.position_mm
    assert moved.go(0.0)
    assert moved.alignment.position == 0.0
    assert moved.go(0.31)
    assert moved.stage.position_mm == pytest.approx(0.31 * wavelength_mm)
    commands = [begin_mm, *moved.stage.commands]
    steps = [abs(b - a) for a, b in pairwise(commands)]
    assert max(steps) <= stroke_mm + 1e-9
    assert min(commands) >= 0.0


def test_a_reading_is_shown_on_the_way(moved: Moved, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alignment, "_EVERY_S", 0.005)
    assert moved.go(0.0)
    assert len(moved.shown) >= 2
    positions = [reading.position for reading in moved.shown]
    assert positions == sorted(positions, reverse=True)
    assert all(reading.seen is not None for reading in moved.shown)


def test_another_key_ends_the_motion_between_two_strokes(moved: Moved) -> None:
    left = iter([True] * 3 + [False] * 100)
    assert not moved.go(0.0, may_move=lambda: next(left))
    assert len(moved.stage.commands) == 3


def test_after_a_stop_no_stroke_follows(moved: Moved) -> None:
    def stop_soon() -> bool:
        if len(moved.stage.commands) == 2:
            moved.stop.request()
        return True

    assert not moved.go(0.0, may_move=stop_soon)
    assert len(moved.stage.commands) == 2


def test_a_reading_after_a_stop_says_so(moved: Moved) -> None:
    moved.stop.request()
    assert moved.alignment.read().problem == "stopped"


@pytest.mark.parametrize("position", [-0.1, 6.1, nan])
def test_a_position_off_the_rail_is_refused(paper: Config, position: float) -> None:
    with pytest.raises(UsageError):
        on_rail(paper, position)


def test_a_stage_that_fails_is_reported_and_tolerated(moved: Moved) -> None:
    def fail(*_: object) -> None:
        raise StageError("the board is silent")

    moved.stage.moves[2] = fail
    assert moved.go(0.0)
    assert [event.kind for event in moved.kept.events()] == [
        EventKind.STAGE_FAULT,
        EventKind.RECOVERY,
    ]


def test_a_probe_that_fails_is_shown(moved: Moved) -> None:
    def fail(_: ScriptedProbe, __: list[Measurement]) -> list[Measurement]:
        raise ProbeError("radio: no server listens")

    moved.probe.collects[1] = fail
    reading = moved.alignment.read()
    assert reading.seen is None
    assert str(reading).endswith("radio: no server listens")
    assert moved.alignment.read().seen is not None


def test_the_line_has_position_level_snr_floor_and_clipping() -> None:
    signal = Signal(-23.4, "dBFS", -40.5, 17.04, 0.0125, 1000)
    seen = Observation(1, 2.5, True, signal=signal)
    line = str(Reading(3.5, 437.23, seen))
    for part in ("3.500 λ", "437.23 mm", "-23.4 dBFS", "17.0 dB", "floor -40.5 dBFS", "1.2%"):
        assert part in line
    unknown = Observation(1, nan, False, reason="no-noise-floor", signal=Signal(-23.4, "dBFS"))
    line = str(Reading(nan, nan, unknown))
    for part in ("position unknown", "SNR unknown", "floor unknown", "no-noise-floor"):
        assert part in line


@contextmanager
def own_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    locks = folder / "locks"
    locks.mkdir(mode=0o700)
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(locks))
    yield


class TestGoto:
    def test_a_simulated_bench_goes_there(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with own_folder(tmp_path, monkeypatch):
            assert main(["goto", "3.1", "--backend", "sim"]) == 0
        last = capsys.readouterr().out.splitlines()[-1]
        assert last.split()[:2] == ["3.100", "λ"]
        assert "SNR" in last

    def test_what_a_daemon_cannot_take_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with own_folder(tmp_path, monkeypatch):
            for words in (["--seed", "4"], ["--port", "x"], ["--set", "run.seed=3"]):
                assert main(["goto", "3", *words]) == 64
            assert main(["goto", "3", "left", "--backend", "sim"]) == 64
            assert main(["goto", "77", "--backend", "sim"]) == 64
            assert main(["goto", "x", "--backend", "sim"]) == 64


def test_goto_without_a_daemon_proposes_to_open_the_bench(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with own_folder(tmp_path, monkeypatch):
        assert main(["goto", "3"]) == 69
    assert "give --backend" in capsys.readouterr().err


def test_jog_in_a_pipe_executes_lines_and_prints_lines(tmp_path: Path) -> None:
    done = subprocess.run(
        [*MACONTROL, "jog", "--backend", "sim"],
        input="3.2\nhello\n+0.1\nleft\nright\nup\n9\n-1mm\n",
        capture_output=True,
        text=True,
        env={**os.environ, "RUNTIME_DIRECTORY": str(tmp_path)},
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert any("'hello'" in line for line in lines)
    assert any("off the rail" in line for line in lines)
    wavelength_mm = 10.0  # nearly: the paper's 30 GHz
    shown = float(lines[-1].split()[0])
    assert shown == pytest.approx(3.3 - 1 / wavelength_mm, abs=2e-3)
