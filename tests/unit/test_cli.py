"""The command line as a user meets it: help, exit codes, and words instead of tracebacks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from macontrol.cli import COMMANDS, main


@dataclass(frozen=True)
class Left:
    """How the command line left, and what it said."""

    code: int
    out: str
    err: str


def as_process(*words: str) -> Left:
    """The real thing: another process."""
    done = subprocess.run(
        [sys.executable, "-m", "macontrol", *words],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return Left(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Left]:
    """The same in this process, which saves starting one."""

    def run(*words: str) -> Left:
        try:
            code = main(words)
        except SystemExit as left:  # argparse leaves by itself
            code = left.code if isinstance(left.code, int) else -1
        told = capsys.readouterr()
        return Left(code, told.out, told.err)

    return run


Run = Callable[..., Left]


def assert_refused(left: Left, code: int, *told: str) -> None:
    assert left.code == code, left.err
    assert "Traceback" not in left.err
    for words in told:
        assert words in left.err
    assert left.out == ""


class TestAsProcess:
    """Exit codes and no traceback, as a shell or a service manager sees them."""

    def test_a_contradiction(self, tmp_path: Path) -> None:
        out = tmp_path / "map.npz"
        words = ["--seed", "1", "--out", str(out), "--set", "physical.actuation_time_s=0.005"]
        told = "macontrol: physical.actuation_time_s (--set physical.actuation_time_s=0.005): "
        assert_refused(as_process("simulate-map", *words), 78, told, "set it below 0.005")
        assert not out.exists()

    def test_a_broken_file(self, tmp_path: Path) -> None:
        broken = tmp_path / "broken.toml"
        broken.write_text("[algorithm\nbeta = 2")
        left = as_process("replay", "map.npz", "--config", str(broken))
        assert_refused(left, 78, f"macontrol: {broken}: this is not TOML", "line 1")

    def test_wrong_usage(self) -> None:
        assert_refused(as_process("replay"), 64, "macontrol replay: error:", "MAP.npz")

    def test_one_file_for_two_things(self, tmp_path: Path) -> None:
        file = str(tmp_path / "run.sqlite")
        left = as_process("--backend", "serial", "--traffic", file, "--run", file)
        assert_refused(left, 64, "--traffic and --run name the same file")

    def test_a_map_that_is_none(self, tmp_path: Path) -> None:
        none = tmp_path / "none.npz"
        assert_refused(as_process("replay", str(none)), 65, f"macontrol: {none}: there is no such")


class TestWrongConfigurations:
    """All of them leave with 78, by the same words as in the tests of the config."""

    @pytest.mark.parametrize(
        ("value", "told"),
        [
            ("algorithm.window=0", "algorithm.window = 0"),
            ("algorithm.bta=2", "did you mean beta?"),
            ("physical.stroke=0.001", "below one grid step"),
            ("physical.initial_position=9", "off the rail [0, 6]"),
            ("algorithm.beta=nan", "finite number"),
            (f"algorithm.eta={'1' * 5000}", "algorithm.eta"),
            ("algorithm", "section.key=value"),
        ],
        ids=lambda text: text[:30],
    )
    def test_a_value(self, run: Run, tmp_path: Path, value: str, told: str) -> None:
        out = tmp_path / "map.npz"
        left = run("simulate-map", "--seed", "1", "--out", str(out), "--set", value)
        assert_refused(left, 78, "macontrol: ", told)
        assert not out.exists()

    def test_a_missing_file(self, run: Run, tmp_path: Path) -> None:
        left = run("replay", "map.npz", "--config", str(tmp_path / "none.toml"))
        assert_refused(left, 78, "none.toml: No such file or directory")

    def test_a_directory(self, run: Run, tmp_path: Path) -> None:
        left = run("replay", "map.npz", "--config", str(tmp_path))
        assert_refused(left, 78, f"{tmp_path}: Is a directory")

    def test_an_unknown_preset(self, run: Run) -> None:
        assert_refused(run("replay", "map.npz", "--preset", "nope"), 78, "no preset called 'nope'")


class TestWrongUsage:
    def test_an_unknown_command(self, run: Run) -> None:
        assert_refused(run("frobnicate"), 64, "no command called 'frobnicate'", "replay")

    def test_an_unknown_option(self, run: Run) -> None:
        assert_refused(run("replay", "map.npz", "--frob"), 64, "--frob")

    @pytest.mark.parametrize("seed", ["-1", "1.5", "x"])
    def test_a_seed_that_is_none(self, run: Run, seed: str) -> None:
        left = run("simulate-map", f"--seed={seed}", "--out", "map.npz")
        assert_refused(left, 64, f"'{seed}' is not a whole number of at least 0")

    @pytest.mark.parametrize("slots", ["0", "-3", "many"])
    def test_a_number_of_slots_that_is_none(self, run: Run, slots: str) -> None:
        left = run("simulate-map", "--seed=1", f"--slots={slots}", "--out", "map.npz")
        assert_refused(left, 64, f"'{slots}' is not a whole number of at least 1")

    def test_an_unknown_policy(self, run: Run) -> None:
        assert_refused(run("replay", "map.npz", "--policy", "best"), 64, "gp-ucb")


class TestHelp:
    def test_without_words_it_tells_how_it_is_used(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main([]) == 0
        told = capsys.readouterr().out
        for name in COMMANDS:
            assert f"  {name}" in told
        assert "78 wrong configuration" in told

    @pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)], ids=str)
    def test_every_command_has_help(
        self, command: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(SystemExit) as left:
            main([*command, "--help"])
        assert left.value.code == 0
        assert "usage: macontrol" in capsys.readouterr().out


def test_a_reader_that_goes_away_is_no_error() -> None:
    """`macontrol … | head`: the pipe is closed before anything is written to it."""
    code = (
        "import os, sys; from macontrol.cli import main\n"
        "r, w = os.pipe(); os.dup2(w, 1); os.close(w); os.close(r)\n"
        "code = main([]); sys.stdout.flush(); sys.exit(code)"
    )
    buffered = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=buffered,
    )
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("words", "preset"),
    [
        ([], "lab-2g4-grbl"),
        (["--stage", "zaber"], "lab-5g8-zaber"),
        (["check"], "lab-2g4-grbl"),
        (["survey", "--out", "map.npz"], "lab-2g4-grbl"),
    ],
    ids=["run", "run with Zaber", "check", "survey"],
)
def test_a_port_is_enough_for_a_serial_bench(
    words: list[str], preset: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The lab preset of the stage is what it starts from, and only the port is missing here."""
    port = str(tmp_path / "none")
    assert main([*words, "--backend", "serial", "--port", port]) == 69
    told = capsys.readouterr()
    assert f"neither --preset nor --config is given: {preset} it is" in told.err
    assert port in told.out + told.err


def test_a_file_is_what_it_says_also_for_a_serial_bench(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "bench.toml"
    file.write_text("[physical]\nslot_duration_s = 0.005\n")
    assert main(["check", "--backend", "serial", "--config", str(file)]) == 69
    assert "it is" not in capsys.readouterr().err


def test_an_interruption_is_heard_while_the_program_is_loaded() -> None:
    """Loading is held up here where it takes long, in numpy."""
    code = (
        "import sys, time\n"
        "class Slow:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'numpy':\n"
        "            print('loading', flush=True)\n"
        "            time.sleep(60)\n"
        "sys.meta_path.insert(0, Slow())\n"
        "from macontrol.__main__ import entry\n"
        "sys.exit(entry())\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "loading\n"
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == "macontrol: interrupted\n"
        assert process.wait(30) == 130
