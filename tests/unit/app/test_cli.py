"""The command line as a user meets it: help, exit codes, and words instead of tracebacks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from macontrol import __version__
from macontrol.cli import COMMANDS, main
from macontrol.command_parser import HelpFormatter


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
        assert_refused(as_process("simulate-map", *words), 78, told, "to at most 0.00435")
        assert not out.exists()

    def test_a_broken_file(self, tmp_path: Path) -> None:
        broken = tmp_path / "broken.toml"
        broken.write_text("[algorithm\nbeta = 2")
        left = as_process("check", "--config", str(broken))
        assert_refused(left, 78, f"macontrol: {broken}: this is not TOML", "line 1")

    def test_wrong_usage(self) -> None:
        assert_refused(as_process("replay"), 64, "macontrol replay: error:", "MAP.npz")

    def test_one_file_for_two_things(self, tmp_path: Path) -> None:
        file = str(tmp_path / "run.sqlite")
        left = as_process("--backend", "serial", "--traffic", file, "--run", file)
        assert_refused(left, 64, "--traffic and --run name the same file")

    def test_a_map_that_is_none(self, tmp_path: Path) -> None:
        none = tmp_path / "none.npz"
        assert_refused(as_process("replay", str(none)), 66, f"macontrol: {none}: there is no such")


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
        left = run("check", "--config", str(tmp_path / "none.toml"))
        assert_refused(left, 78, "none.toml: there is no such file")

    def test_a_directory(self, run: Run, tmp_path: Path) -> None:
        left = run("check", "--config", str(tmp_path))
        assert_refused(left, 78, f"{tmp_path}: is a folder")

    def test_an_unknown_preset(self, run: Run) -> None:
        assert_refused(run("check", "--preset", "nope"), 78, "no preset called 'nope'")


class TestWrongUsage:
    def test_an_unknown_command(self, run: Run) -> None:
        assert_refused(run("frobnicate"), 64, "no command 'frobnicate'", "replay")

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


class TestDidYouMean:
    @pytest.mark.parametrize(
        ("words", "hint"),
        [
            ("--backed sim", "did you mean --backend?"),
            ("-backend sim", "did you mean --backend?"),
            ("--backend sim --slot=3 --fsat", "did you mean --fast?"),
            ("run", "`macontrol --backend sim` runs the controller"),
            ("Run --backend sim", "`macontrol --backend sim` runs the controller"),
            ("Check", "did you mean check?"),
            ("virtual_bench", "did you mean virtual-bench?"),
            ("help virtual_bench", "did you mean virtual-bench?"),
            ("versoin", "did you mean version?"),
            ("--backend sim --policy moveucbb", "did you mean moveucb?"),
            ("--backend simm", "did you mean sim?"),
            ("bench posterio", "did you mean posterior?"),
            ("bench posterior --quik", "did you mean --quick?"),
            ("reproduce mian --out x", "did you mean main?"),
        ],
    )
    def test_a_word_that_is_nearly_one(self, run: Run, words: str, hint: str) -> None:
        left = run(*words.split())
        assert_refused(left, 64, hint)
        assert len(left.err.splitlines()) <= 2

    @pytest.mark.parametrize(
        ("words", "hint"),
        [
            ("check --preset papr", "did you mean paper?"),
            ("check --set algoritm.beta=2", "did you mean algorithm?"),
            ("check --set algorithm.policy=moveucbb", "'moveucb'"),
        ],
    )
    def test_a_setting_that_is_nearly_one(self, run: Run, words: str, hint: str) -> None:
        assert_refused(run(*words.split()), 78, hint)

    def test_an_abbreviation_and_what_follows_two_dashes_are_no_mistakes(self, run: Run) -> None:
        assert_refused(run("replay", "--pol", "fixed", "--", "--none.npz"), 66, "--none.npz: there")

    def test_a_missing_argument_gets_one_line_of_usage(self, run: Run) -> None:
        assert run("export", "x").err.splitlines() == [
            "usage: macontrol export --format {csv,npz,map} [options] RUN   "
            "('macontrol export --help' lists them)",
            "macontrol export: error: the following arguments are required: --format",
        ]


class TestOddValues:
    @pytest.mark.parametrize("name", ["x" * 300, "\udcff", "a\nb", ""])
    def test_a_name_that_no_file_can_have(self, run: Run, name: str) -> None:
        left = run("--backend", "sim", "--fast", "--slots", "1", "--name", name)
        assert_refused(left, 64, "is not a name")

    @pytest.mark.parametrize("option", ["--seed", "--slots", "--faults"])
    def test_a_number_of_thousands_of_digits(self, run: Run, option: str) -> None:
        left = run("--backend", "sim", "--fast", option, "9" * 100_000)
        assert_refused(left, 64, option)
        assert len(left.err) < 500


class TestHelp:
    def test_version(self, run: Run) -> None:
        left = run("version")
        assert (left.code, left.out) == (0, f"macontrol {__version__}\n")
        assert run("--version") == left
        assert run("version", "--help") == left

    def test_help_is_a_command_too(self, run: Run) -> None:
        assert run("help") == run("--help")
        assert run("help", "version") == run("help", "help") == run("help")
        assert run("help", "check") == run("check", "--help")
        assert run("help", "bench", "posterior") == run("bench", "posterior", "--help")
        assert "usage: macontrol check" in run("help", "check").out

    def test_without_words_it_tells_how_it_is_used(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main([]) == 0
        told = capsys.readouterr().out
        for name in COMMANDS:
            assert f"  {name}" in told
        assert "78 wrong configuration" in " ".join(told.split())

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
        (["--yes"], "lab-2g4-grbl"),
        (["--yes", "--stage", "zaber"], "lab-5g8-zaber"),
        (["check"], "lab-2g4-grbl"),
        (["survey", "--yes", "--out", "map.npz"], "lab-2g4-grbl"),
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
    assert f"using preset {preset};" in told.err
    assert port in told.out + told.err


def test_a_file_is_what_it_says_also_for_a_serial_bench(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "bench.toml"
    file.write_text("[physical]\nslot_duration_s = 0.005\n")
    assert main(["check", "--backend", "serial", "--config", str(file)]) == 69
    assert "using preset" not in capsys.readouterr().err


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


@pytest.mark.parametrize("columns", [60, 120])
@pytest.mark.parametrize("command", [None, *COMMANDS])
def test_help_fits_the_terminal(
    command: str | None,
    columns: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    with suppress(SystemExit):
        main(["help", command] if command else [])
    shown = capsys.readouterr().out.splitlines()
    assert shown
    # argparse never breaks a list of choices.
    assert [line for line in shown if len(line) > columns and "{" not in line] == []


def test_help_wraps_a_list_in_its_second_column_and_keeps_paragraphs_apart() -> None:
    text = "One two\nthree.\n\n  csv   all that is known, in\n        a table\n  npz   arrays\n"
    formatter = HelpFormatter("macontrol")
    assert formatter._fill_text(text, 34, "").splitlines() == [
        "One two three.",
        "",
        "  csv   all that is known, in a",
        "        table",
        "  npz   arrays",
    ]
    assert formatter._fill_text("  a command   of it", 34, "").splitlines() == [
        "  a command",
        "      of it",
    ]
