"""Every command refuses hostile input: with a message and exit code, soon, with little memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import hostile_files
from support.hostile_commands import Outcome, assert_refused, attack
from support.sample_run import write_run

FAST_RUN = ("--backend", "sim", "--fast", "--slots", "1")
# Each command that reads a config, as it would run if the config were good.
CONFIGURED = {
    "run": FAST_RUN,
    "check": ("check",),
    "jog": ("jog", "--backend", "sim"),
    "goto": ("goto", "1", "--backend", "sim"),
    "config show": ("config", "show"),
    "survey": ("survey", "--backend", "sim", "--out", "unwritten.npz"),
    "calibrate": ("calibrate", "--backend", "sim", "--minutes", "2", "--out", "unwritten.toml"),
    "simulate-map": ("simulate-map", "--seed", "1", "--out", "unwritten.npz"),
    "replay": ("replay", "good.npz"),
    "virtual-bench": ("virtual-bench", "--rtl-tcp", "127.0.0.1:0"),
    "bench end-to-end": ("bench", "end-to-end"),
}
READERS = {
    "export csv": ("export", "RUN", "--format", "csv"),
    "export events": ("export", "RUN", "--format", "csv", "--events"),
    "export npz": ("export", "RUN", "--format", "npz", "--out", "unwritten.npz"),
    "export map": ("export", "RUN", "--format", "map", "--out", "unwritten.npz"),
    "export netcdf": ("export", "RUN", "--format", "netcdf", "--out", "unwritten.nc"),
    "report": ("report", "RUN", "--out", "unwritten.html"),
    "compare": ("compare", "RUN", "good.sqlite", "--out", "unwritten.html"),
}
# The run files among the bad ones: they are listed with what is wrong, and can be pruned.
DAMAGED = (
    *("marked but empty", "no header", "of the future", "of a future without a version"),
    *("tables are views", "cut file", "page of noise"),
)
RESUMED = ("--backend", "sim", "--slots", "1", "--resume", "--run")
SEEDED = {
    "run": FAST_RUN,
    "calibrate": ("calibrate", "--backend", "sim", "--minutes", "2", "--out", "unwritten.toml"),
    "survey": ("survey", "--backend", "sim", "--out", "unwritten.npz"),
    "simulate-map": ("simulate-map", "--out", "unwritten.npz"),
    "replay": ("replay", "good.npz"),
    "virtual-bench": ("virtual-bench", "--rtl-tcp", "127.0.0.1:0"),
    "reproduce": ("reproduce", "main", "--out", "unwritten"),
}
SEEDS = {"digits": "9" * 100_000, "below zero": "-1", "a fraction": "1.5", "not UTF-8": "\udcff"}
SETTINGS = {
    "not UTF-8": "stage.port=\udcff",
    "digits": "run.horizon=" + "9" * 100_000,
    "hexadecimal digits": "run.horizon=0x" + "f" * 30_000,
    "parts": "a.b={" + ".".join(["a"] * 20_000) + "=1}",
    "brackets": "algorithm.beta=" + "[" * 50_000,
    "no section": "beta=2",
    "nothing": "=",
    "only dots": "." * 50_000,
}
OPTIONS = {
    "long name": (*FAST_RUN, "--name", "x" * 300),
    "name not UTF-8": (*FAST_RUN, "--name", "\udcff"),
    "unending duration": ("--backend", "sim", "--duration", "inf"),
    "many slots": (*FAST_RUN[:-1], "9" * 30),
    "faults": (*FAST_RUN, "--faults", "9" * 100_000),
    "fault rate": (*FAST_RUN, "--faults", "1:nan"),
    "preset": (*FAST_RUN, "--preset", "\udcff" * 1000),
    "policy": (*FAST_RUN, "--policy", "x" * 100_000),
    "option": ("--" + "x" * 100_000,),
    "command": ("x" * 100_000,),
    "command not UTF-8": ("\udcff",),
    "subject": ("bench", "\udcff"),
    "radio": ("check", "--backend", "serial", "--probe", "x" * 100_000),
    "radio port": ("check", "--backend", "serial", "--probe", "rtl_tcp://a:" + "1" * 5000),
    "port": ("check", "--backend", "serial", "--port", "\udcff"),
    "long port": ("--backend", "serial", "--yes", "--port", "/dev/" + "x" * 900),
    "figure": ("reproduce", "\udcff", "--out", "unwritten"),
    "figure slots": ("reproduce", "main", "--slots", "9" * 30, "--out", "unwritten"),
    "listen": ("virtual-bench", "--rtl-tcp", "x" * 100_000),
    "map slots": ("simulate-map", "--seed", "1", "--slots", "999999999", "--out", "unwritten.npz"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


@pytest.fixture(scope="module")
def outcomes(folder: Path) -> dict[str, Outcome]:
    """The outcomes of all commands, run in one process."""
    return attack(dict(_cases(folder)), folder)


def _cases(folder: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    hostile_files.good_map(folder / "good.npz")
    write_run(folder / "good.sqlite", range(1, 9))
    odd = hostile_files.odd_files(folder)
    for name, path in {**odd, **hostile_files.bad_configs(folder)}.items():
        for command, words in CONFIGURED.items():
            yield f"config: {command}: {name}", (*words, "--config", str(path))
    for name, path in {**odd, **hostile_files.bad_maps(folder)}.items():
        yield f"map: replay: {name}", ("replay", str(path))
    for name, path in hostile_files.bad_surveys(folder).items():
        words = ("export", str(path), "--format", "map", "--out", "unwritten.npz")
        yield f"survey: export: {name}", words
    for name, path in {**odd, **hostile_files.bad_run_files(folder)}.items():
        for command, words in READERS.items():
            yield f"run: {command}: {name}", (words[0], str(path), *words[2:])
    resumed, listed = folder / "resumed", folder / "listed"  # a run writes to the first one
    resumed.mkdir()
    listed.mkdir()
    files = hostile_files.odd_files(resumed) | hostile_files.bad_run_files(resumed)
    for name, path in files.items():
        yield f"resume: run: {name}", (*RESUMED, str(path))
    for name, path in (odd | hostile_files.bad_run_files(listed)).items():
        yield f"listed: {name}", ("runs", str(path))
        yield f"pruned: {name}", ("runs", str(path), "--prune", "--keep-mb", "1e-9")
    for name, path in odd.items():
        words = (*CONFIGURED["virtual-bench"], "--faults", str(path))
        yield f"faults: virtual-bench: {name}", words
    for name, seed in SEEDS.items():
        for command, words in SEEDED.items():
            yield f"seed: {command}: {name}", (*words, f"--seed={seed}")
    for name, setting in SETTINGS.items():
        for command, words in CONFIGURED.items():
            yield f"setting: {command}: {name}", (*words, "--set", setting)
    for name, words in OPTIONS.items():
        yield f"option: {name}", words


def _chosen(outcomes: dict[str, Outcome], kind: str) -> dict[str, Outcome]:
    found = {name: outcome for name, outcome in outcomes.items() if name.startswith(kind)}
    assert found
    return found


@pytest.mark.fault("input-not-a-file")
@pytest.mark.parametrize(
    "kind", ["config", "map", "survey", "run", "faults", "seed", "setting", "option"]
)
def test_it_is_refused_with_a_message(kind: str, outcomes: dict[str, Outcome]) -> None:
    failed = []
    for name, outcome in _chosen(outcomes, f"{kind}: ").items():
        try:
            assert_refused(outcome)
        except AssertionError as error:
            failed.append(f"{name}: {outcome.code}, {outcome.cpu_s:.1f} s: {str(error)[-300:]}")
    assert not failed, "\n".join([f"{len(failed)}", *failed])


@pytest.mark.fault("run-not-a-run-file")
def test_a_run_does_not_continue_a_file_that_is_not_a_run(outcomes: dict[str, Outcome]) -> None:
    """It starts cold beside a damaged run file, and changes no other file."""
    for outcome in _chosen(outcomes, "resume: ").values():
        assert_refused(outcome, (0, 74))


@pytest.mark.fault("input-not-a-file")
def test_the_list_of_runs_shows_what_is_damaged_and_refuses_what_is_not_a_run(
    outcomes: dict[str, Outcome],
) -> None:
    for kind in ("listed: ", "pruned: "):
        for name, outcome in _chosen(outcomes, kind).items():
            damaged = name.removeprefix(kind) in DAMAGED
            of_runs = damaged or name.endswith("empty-folder")
            assert_refused(outcome, (0, 64) if of_runs else (65, 66))


def test_nothing_was_written(folder: Path, outcomes: dict[str, Outcome]) -> None:
    assert outcomes
    assert not [path for path in folder.iterdir() if path.name.startswith("unwritten")]
    assert (folder / "pipe").is_fifo()
    assert os.readlink(folder / "circle") == "circle"


@pytest.mark.fault("input-not-a-file")
def test_a_missing_input_file_has_its_own_exit_code(outcomes: dict[str, Outcome]) -> None:
    codes = {name: outcome.code for name, outcome in outcomes.items()}
    for kind, code in (("config: check", 78), ("map: replay", 66), ("run: export csv", 66)):
        assert codes[f"{kind}: missing"] == codes[f"{kind}: dangling"] == code
    assert codes["faults: virtual-bench: missing"] == 66
