"""No output option damages what it names: it writes a file or a stream, or is refused."""

from __future__ import annotations

import argparse
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from macontrol.cli import COMMANDS, load_command
from macontrol.command_parser import Parser
from macontrol.commands.shared_arguments import plot_file
from support import hostile_files
from support.hostile_commands import Outcome, assert_refused, attack

MADE = {
    "map": ("simulate-map", "--seed", "1", "--slots", "5", "--out", "map.npz"),
    "run": ("--backend", "sim", "--fast", "--slots", "5", "--run", "run.sqlite"),
}
# Each option that names an output; the name is added at the end.
OUTPUTS = {
    "run --run": ("--backend", "sim", "--fast", "--slots", "5", "--run"),
    "export csv": ("export", "run.sqlite", "--format", "csv", "--out"),
    "export npz": ("export", "run.sqlite", "--format", "npz", "--out"),
    "export map": ("export", "run.sqlite", "--format", "map", "--out"),
    "export netcdf": ("export", "run.sqlite", "--format", "netcdf", "--out"),
    "report": ("report", "run.sqlite", "--out"),
    "compare": ("compare", "run.sqlite", "run.sqlite", "--out"),
    "survey --out": ("survey", "--backend", "sim", "--out"),
    "survey --plot": ("survey", "--backend", "sim", "--out", "survey.npz", "--plot"),
    "calibrate --out": ("calibrate", "--backend", "sim", "--report", "page.html", "--out"),
    "calibrate --report": ("calibrate", "--backend", "sim", "--out", "site.toml", "--report"),
    "calibrate --walks": ("calibrate", "--backend", "sim", "--out", "site.toml", "--walks"),
    "simulate-map": ("simulate-map", "--seed", "1", "--slots", "5", "--out"),
    "replay --csv": ("replay", "map.npz", "--csv"),
    "replay --json": ("replay", "map.npz", "--json"),
    "replay --plot": ("replay", "map.npz", "--plot"),
    "check --traffic": ("check", "--backend", "serial", "--port", "nowhere", "--traffic"),
    "reproduce": (
        *("reproduce", "kernel", "--realizations", "1", "--slots", "100", "--no-plots"),
        *("--jobs", "1", "--out"),
    ),
    "bench end-to-end": ("bench", "end-to-end", "--keep"),
    "bench ab": (
        *("bench", "ab", "--backend", "sim", "--fast", "--policies", "fixed,fixed"),
        *("--block", "0.1", "--blocks", "1", "--out"),
    ),
    "virtual-bench --link": ("virtual-bench", "--rtl-tcp", "127.0.0.1:0", "--link"),
    "virtual-bench --probe-link": ("virtual-bench", "--probe", "line", "--probe-link"),
    "virtual-bench --notify": ("virtual-bench", "--rtl-tcp", "127.0.0.1:0", "--notify"),
}
# All end like a plot, so that they can be named by any option.
REFUSED = ("pipe.png", "zero.png", "socket.png", "full.png/a.png", "circle.png", "x" * 300 + ".png")
FOLDERS = ("reproduce", "bench end-to-end", "bench ab")
STREAMED = (
    *("export csv", "export npz", "export netcdf", "report", "compare"),
    *("survey --out", "survey --plot", "replay --csv"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("outputs")
    os.mkfifo(folder / "pipe.png")
    (folder / "zero.png").symlink_to("/dev/zero")
    (folder / "null.png").symlink_to("/dev/null")
    (folder / "full.png").symlink_to("/dev/full")
    (folder / "circle.png").symlink_to("circle.png")
    (folder / "folder.png").mkdir()
    (folder / "file").write_text("kept")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(folder / "socket.png"))
        yield folder


@pytest.fixture(scope="module")
def outcomes(folder: Path) -> dict[str, Outcome]:
    hostile_files.good_map(folder / "map.npz")
    cases: dict[str, tuple[str, ...]] = {**MADE}
    for option, words in OUTPUTS.items():
        targets = REFUSED if option in FOLDERS else (*REFUSED, "folder.png")
        cases |= {f"{option}: {target}": (*words, target) for target in targets}
    for option in STREAMED:
        cases[f"streamed: {option}"] = (*OUTPUTS[option], "null.png")
        cases[f"full: {option}"] = (*OUTPUTS[option], "full.png")
    return attack(cases, folder)


def test_every_option_that_names_a_file_is_in_the_corpus() -> None:
    """Add a new option to OUTPUTS here, or to the tests of bad inputs."""
    found = set()
    for command in ("run", *COMMANDS):
        parser = Parser()
        load_command(command).add_arguments(parser)
        found |= {f"{command} {name}" for name in _path_options(parser)}
    outputs = {
        *("run --run", "run --traffic", "check --traffic", "survey --traffic"),
        *("survey --out", "survey --plot", "export --out", "simulate-map --out"),
        *("report --out", "compare --out"),
        *("calibrate --out", "calibrate --report", "calibrate --walks", "calibrate --traffic"),
        *("replay --csv", "replay --json", "replay --plot", "reproduce --out", "bench --keep"),
        *("bench --out", "bench --traffic", "jog --traffic", "goto --traffic"),
        *("virtual-bench --link", "virtual-bench --notify", "virtual-bench --probe-link"),
    }
    configs = {"run", "check", "config", "survey", "simulate-map", "replay", "bench"}
    configs |= {"virtual-bench", "calibrate", "jog", "goto"}
    inputs = {f"{command} --config" for command in configs}
    runs = {"export run", "report run", "compare runs", "runs places"}
    listed = {"dashboard places"}  # serves until it is stopped: see test_run_reader.py
    assert found == outputs | inputs | runs | listed | {"replay map", "virtual-bench --faults"}


def _path_options(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for subject in action.choices.values():
                yield from _path_options(subject)
        elif action.type in (Path, plot_file):
            yield action.option_strings[0] if action.option_strings else action.dest


@pytest.mark.fault("output-not-a-file")
@pytest.mark.parametrize("option", OUTPUTS)
def test_what_is_not_an_output_is_refused(option: str, outcomes: dict[str, Outcome]) -> None:
    assert all(outcomes[name].code == 0 for name in MADE)
    found = {name: o for name, o in outcomes.items() if name.startswith(f"{option}: ")}
    assert len(found) >= len(REFUSED)
    for outcome in found.values():
        assert_refused(outcome, (64, 74))


@pytest.mark.parametrize("option", STREAMED)
def test_a_stream_is_written_to(option: str, outcomes: dict[str, Outcome]) -> None:
    assert outcomes[f"streamed: {option}"].code == 0
    assert_refused(outcomes[f"full: {option}"], (74,))


@pytest.mark.fault("output-not-a-file")
def test_nothing_else_has_changed(folder: Path, outcomes: dict[str, Outcome]) -> None:
    assert outcomes
    links = {"zero.png": "/dev/zero", "null.png": "/dev/null", "full.png": "/dev/full"}
    assert {name: os.readlink(folder / name) for name in links} == links
    assert os.readlink(folder / "circle.png") == "circle.png"
    assert (folder / "pipe.png").is_fifo()
    assert (folder / "socket.png").is_socket()
    assert list((folder / "folder.png").iterdir()) == []
    assert all(stat.S_ISCHR(os.stat(device).st_mode) for device in links.values())
    assert [path.name for path in folder.iterdir() if path.name.endswith(".part")] == []
