"""Every command handles an ASCII or full standard output."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from macontrol.cli import main
from macontrol.standard_streams import is_full
from support.hostile_commands import Outcome, attack

COMMANDS = {
    "help": ["help"],
    "version": ["version"],
    "check": ["check", "--preset", "lab-2g4-grbl"],
    "devices": ["devices"],
    "run": ["--backend", "sim", "--fast", "--slots", "20", "--regret", "--run", "λ.sqlite"],
    "export": ["export", "λ.sqlite", "--format", "csv"],
    "events": ["export", "λ.sqlite", "--format", "csv", "--events"],
    "simulate-map": ["simulate-map", "--seed", "1", "--slots", "20", "--out", "λ\udcff.npz"],
    "replay": ["replay", "λ\udcff.npz"],
    "survey": ["survey", "--backend", "sim", "--out", "σ.npz"],
    "reproduce": [
        *("reproduce", "kernel", "--realizations", "1", "--slots", "100", "--no-plots"),
        *("--jobs", "1", "--out", "λ"),
    ],
}


@pytest.fixture(scope="module")
def on_ascii(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    return attack(COMMANDS, tmp_path_factory.mktemp("ascii"), encoding="ascii")


@pytest.fixture(scope="module")
def on_full(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    return attack(COMMANDS, tmp_path_factory.mktemp("full"), stdout="/dev/full")


@pytest.mark.fault("terminal-ascii")
@pytest.mark.parametrize("command", COMMANDS)
def test_an_ascii_terminal_gets_plain_words(command: str, on_ascii: dict[str, Outcome]) -> None:
    outcome = on_ascii[command]
    assert outcome.code == 0, outcome.err
    assert outcome.out.isascii()
    assert "Traceback" not in outcome.err


def test_characters_beyond_ascii_have_a_plain_form(on_ascii: dict[str, Outcome]) -> None:
    assert on_ascii["simulate-map"].out.startswith("lambda?.npz: 20 slots x 601 positions")


@pytest.mark.fault("stdout-full")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_output_is_reported(command: str, on_full: dict[str, Outcome]) -> None:
    outcome = on_full[command]
    # A run continues without its output.
    assert outcome.code == (0 if command == "run" else 74), outcome.err
    assert "Traceback" not in outcome.err
    if outcome.code:
        assert "standard output: cannot be written: No space left on device" in outcome.err


@pytest.mark.fault("stdout-full")
@pytest.mark.parametrize("words", [["help"], ["version"], ["check", "--help"]])
def test_a_full_unbuffered_output_is_reported(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """With PYTHONUNBUFFERED, argparse writes by itself and ignores the error."""
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    with (
        Path("/dev/full").open("wb", 0) as full,
        io.TextIOWrapper(full, "utf-8", write_through=True) as output,
    ):
        monkeypatch.setattr(sys, "stdout", output)
        assert main(words) == 74
        monkeypatch.undo()
    assert "standard output: cannot be written" in capfd.readouterr().err


def test_a_full_disk_of_a_named_file_is_not_an_output_error() -> None:
    assert is_full(OSError(28, "No space left on device"))
    assert not is_full(OSError(28, "No space left on device", "map.npz"))
    assert not is_full(OSError(2, "No such file"))
