"""The command line: help, exit codes, and messages instead of tracebacks."""

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
class Result:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


def as_process(*words: str) -> Result:
    """Run a command in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "macontrol", *words],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return Result(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """Run a command in this process, which is faster."""

    def run(*words: str) -> Result:
        try:
            code = main(words)
        except SystemExit as ended:  # argparse exits by itself
            code = ended.code if isinstance(ended.code, int) else -1
        output = capsys.readouterr()
        return Result(code, output.out, output.err)

    return run


Run = Callable[..., Result]


def assert_refused(result: Result, code: int, *expected: str) -> None:
    assert result.code == code, result.err
    assert "Traceback" not in result.err
    for text in expected:
        assert text in result.err
    assert result.out == ""


class TestAsProcess:
    """Exit codes of a process, without a traceback."""

    def test_a_contradiction(self, tmp_path: Path) -> None:
        out = tmp_path / "map.npz"
        words = ["--seed", "1", "--out", str(out), "--set", "physical.actuation_time_s=0.005"]
        key = "macontrol: physical.actuation_time_s (--set physical.actuation_time_s=0.005): "
        assert_refused(as_process("simulate-map", *words), 78, key, "to at most 0.00435")
        assert not out.exists()

    def test_a_broken_file(self, tmp_path: Path) -> None:
        broken = tmp_path / "broken.toml"
        broken.write_text("[algorithm\nbeta = 2")
        result = as_process("check", "--config", str(broken))
        assert_refused(result, 78, f"macontrol: {broken}: this is not TOML", "line 1")

    def test_wrong_usage(self) -> None:
        assert_refused(as_process("replay"), 64, "macontrol replay: error:", "MAP.npz")

    def test_one_file_for_two_outputs(self, tmp_path: Path) -> None:
        file = str(tmp_path / "run.sqlite")
        result = as_process("--backend", "serial", "--traffic", file, "--run", file)
        assert_refused(result, 64, "--traffic and --run name the same file")

    def test_a_missing_map(self, tmp_path: Path) -> None:
        none = tmp_path / "none.npz"
        assert_refused(as_process("replay", str(none)), 66, f"macontrol: {none}: there is no such")


class TestWrongConfigurations:
    """Every config error exits with 78."""

    @pytest.mark.parametrize(
        ("value", "expected"),
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
    def test_a_value(self, run: Run, tmp_path: Path, value: str, expected: str) -> None:
        out = tmp_path / "map.npz"
        result = run("simulate-map", "--seed", "1", "--out", str(out), "--set", value)
        assert_refused(result, 78, "macontrol: ", expected)
        assert not out.exists()

    def test_a_missing_file(self, run: Run, tmp_path: Path) -> None:
        result = run("check", "--config", str(tmp_path / "none.toml"))
        assert_refused(result, 78, "none.toml: there is no such file")

    def test_a_directory(self, run: Run, tmp_path: Path) -> None:
        result = run("check", "--config", str(tmp_path))
        assert_refused(result, 78, f"{tmp_path}: is a folder")

    def test_an_unknown_preset(self, run: Run) -> None:
        assert_refused(run("check", "--preset", "nope"), 78, "no preset called 'nope'")


class TestWrongUsage:
    def test_an_unknown_command(self, run: Run) -> None:
        assert_refused(run("frobnicate"), 64, "no command 'frobnicate'", "replay")

    def test_an_unknown_option(self, run: Run) -> None:
        assert_refused(run("replay", "map.npz", "--frob"), 64, "--frob")

    @pytest.mark.parametrize("seed", ["-1", "1.5", "x"])
    def test_a_wrong_seed(self, run: Run, seed: str) -> None:
        result = run("simulate-map", f"--seed={seed}", "--out", "map.npz")
        assert_refused(result, 64, f"'{seed}' is not a whole number of at least 0")

    @pytest.mark.parametrize("slots", ["0", "-3", "many"])
    def test_a_wrong_number_of_slots(self, run: Run, slots: str) -> None:
        result = run("simulate-map", "--seed=1", f"--slots={slots}", "--out", "map.npz")
        assert_refused(result, 64, f"'{slots}' is not a whole number of at least 1")

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
    def test_a_misspelled_word(self, run: Run, words: str, hint: str) -> None:
        result = run(*words.split())
        assert_refused(result, 64, hint)
        assert len(result.err.splitlines()) <= 2

    @pytest.mark.parametrize(
        ("words", "hint"),
        [
            ("check --preset papr", "did you mean paper?"),
            ("check --set algoritm.beta=2", "did you mean algorithm?"),
            ("check --set algorithm.policy=moveucbb", "did you mean moveucb?"),
        ],
    )
    def test_a_misspelled_setting(self, run: Run, words: str, hint: str) -> None:
        assert_refused(run(*words.split()), 78, hint)

    def test_abbreviations_and_words_after_two_dashes_are_accepted(self, run: Run) -> None:
        assert_refused(run("replay", "--pol", "fixed", "--", "--none.npz"), 66, "--none.npz: there")

    def test_a_missing_argument_gives_one_line_of_usage(self, run: Run) -> None:
        assert run("export", "x").err.splitlines() == [
            "usage: macontrol export --format {csv,npz,netcdf,map} [options] RUN   "
            "('macontrol export --help' lists them)",
            "macontrol export: error: the following arguments are required: --format",
        ]

    def test_a_line_of_usage_marks_what_may_be_left_out(self, run: Run) -> None:
        assert " POSITION [NAME] " in run("goto").err.splitlines()[0]


class TestOddValues:
    @pytest.mark.parametrize("name", ["x" * 300, "\udcff", "a\nb", ""])
    def test_an_impossible_file_name(self, run: Run, name: str) -> None:
        result = run("--backend", "sim", "--fast", "--slots", "1", "--name", name)
        assert_refused(result, 64, "is not a name")

    @pytest.mark.parametrize("option", ["--seed", "--slots", "--faults"])
    def test_a_number_of_thousands_of_digits(self, run: Run, option: str) -> None:
        result = run("--backend", "sim", "--fast", option, "9" * 100_000)
        assert_refused(result, 64, option)
        assert len(result.err) < 500


class TestHelp:
    def test_version(self, run: Run) -> None:
        result = run("version")
        assert (result.code, result.out) == (0, f"macontrol {__version__}\n")
        assert run("--version") == result
        assert run("version", "--help") == result

    def test_help_is_a_command(self, run: Run) -> None:
        assert run("help") == run("--help")
        assert run("help", "version") == run("help", "help") == run("help")
        assert run("help", "check") == run("check", "--help")
        assert run("help", "bench", "posterior") == run("bench", "posterior", "--help")
        assert "usage: macontrol check" in run("help", "check").out

    def test_without_arguments_it_prints_its_help(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main([]) == 0
        output = capsys.readouterr().out
        for name in COMMANDS:
            assert f"  {name}" in output
        assert "78 wrong configuration" in " ".join(output.split())

    @pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)], ids=str)
    def test_every_command_has_help(
        self, command: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(SystemExit) as result:
            main([*command, "--help"])
        assert result.value.code == 0
        assert "usage: macontrol" in capsys.readouterr().out


def test_a_closed_pipe_is_not_an_error() -> None:
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
def test_a_serial_bench_needs_only_a_port(
    words: list[str], preset: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """It uses the lab preset of the stage; here only the port is missing."""
    port = str(tmp_path / "none")
    assert main([*words, "--backend", "serial", "--port", port]) == 69
    output = capsys.readouterr()
    assert f"using preset {preset};" in output.err
    assert port in output.out + output.err


def test_a_config_file_replaces_the_lab_preset(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "bench.toml"
    file.write_text("[physical]\nslot_duration_s = 0.005\n")
    assert main(["check", "--backend", "serial", "--config", str(file)]) == 69
    assert "using preset" not in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["--stage", "zaber"], ["--preset", "paper"]])
def test_a_file_without_a_slot_length_is_reported_on_a_serial_bench(
    words: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The paper's 5 ms are too short for most benches; a preset that is named is intended."""
    file = tmp_path / "tx.toml"
    file.write_text("[tx]\nsettling_s = 0.3\n")
    main(["check", "--backend", "serial", "--config", str(file), *words])
    proposed = {(): "lab-2g4-grbl", ("--stage", "zaber"): "lab-5g8-zaber"}.get(tuple(words))
    error = capsys.readouterr().err
    assert ("physical.slot_duration_s is not in --config" in error) == (proposed is not None)
    assert proposed is None or f"add --preset {proposed}," in error


def test_a_file_with_a_slot_length_is_not_reported(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "bench.toml"
    file.write_text("[physical]\nslot_duration_s = 0.25\n")
    main(["check", "--backend", "serial", "--config", str(file)])
    assert "is not in --config" not in capsys.readouterr().err


def test_ctrl_c_ends_the_program_while_it_loads() -> None:
    """This test delays the import of the command line."""
    code = (
        "import sys, time\n"
        "class Slow:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'macontrol.cli':\n"
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
    text = "One two\nthree.\n\n  csv   each and every field, in\n        a table\n  npz   arrays\n"
    formatter = HelpFormatter("macontrol")
    assert formatter._fill_text(text, 34, "").splitlines() == [
        "One two three.",
        "",
        "  csv   each and every field, in a",
        "        table",
        "  npz   arrays",
    ]
    assert formatter._fill_text("  a command   of it", 34, "").splitlines() == [
        "  a command",
        "      of it",
    ]
