"""`macontrol runs`: the list of recorded runs, their removal, and the description of a run file."""

from __future__ import annotations

import json
import os
import pty
import sqlite3
import subprocess
import sys
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import macontrol
from macontrol.cli import main
from macontrol.config import load_config
from macontrol.controller.recording.events import REASONS, EventKind
from macontrol.controller.recording.runfile import default_run_folder, runs_in
from macontrol.controller.recording.runfile.schema import EVENT_COLUMNS, SLOT_COLUMNS
from support.sample_run import write_run

BEFORE = Path(__file__).parents[2] / "fixtures" / "before-packages"
CONFIG = load_config().replace(algorithm__grid_spacing=0.06, survey__samples=20)
SLOTS = 240


def listed(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert main(["runs", *words, "--json"]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def sql(path: Path, query: str) -> Any:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchone()[0]


def test_every_column_event_and_reason_is_listed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["runs", "--schema"]) == 0
    rows = [
        tuple(cell.strip() for cell in line.strip("│").split("│"))
        for line in capsys.readouterr().out.splitlines()
        if line.startswith("│")
    ]
    slots = [("slots", column.name, column.unit, column.meaning) for column in SLOT_COLUMNS]
    events = [("events", column.name, column.unit, column.meaning) for column in EVENT_COLUMNS]
    kinds = [(str(kind), kind.meaning, kind.number) for kind in EventKind]
    assert rows == [*slots, *events, *kinds, *REASONS.items()]


@pytest.mark.parametrize("policy", ["moveucb", "gp-ucb"])
def test_a_simulated_run_is_listed_with_its_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], policy: str
) -> None:
    path = tmp_path / "run.sqlite"
    macontrol.run_simulated(policy, CONFIG, slots=SLOTS, seed=5, run_file=path)
    (line,) = listed(capsys, str(tmp_path))
    world = macontrol.simulate_map(CONFIG, seed=5, slots=SLOTS)
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT slot, position, reward FROM slots").fetchall()
    earned = np.mean([np.interp(x, world.positions, world.reward[t - 1]) for t, x, _ in rows])
    fixed = world.reward[:, np.argmin(np.abs(world.positions - CONFIG.physical.x_0))].mean()
    assert line["mean_reward"] == pytest.approx(sql(path, "SELECT avg(reward) FROM slots"))
    assert line["gain_over_fixed"] == pytest.approx(earned / fixed - 1, rel=1e-6)
    assert "simulated world" in line["gain_known_from"]
    assert line["gain_unknown_because"] is None
    steps = sum(abs(b[1] - a[1]) for a, b in pairwise(rows))
    assert line["travel"] == pytest.approx(steps)
    assert line["duration_s"] == pytest.approx(SLOTS * CONFIG.physical.slot_duration_s)
    expected = {"file": str(path), "slots": SLOTS, "policy": policy, "backend": "sim"}
    assert {key: line[key] for key in expected} == expected
    assert (line["faults"], line["problem"], line["state"]) == (0, None, "ended")


def test_the_gain_is_that_of_the_summary(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = [sys.executable, "-m", "macontrol", "--backend", "sim", "--fast", "--slots", "300"]
    command = [*run, "--faults", "3:0.02", "--run", "r.sqlite", "--log", "json"]
    done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    summary = json.loads(done.stdout.splitlines()[-1])
    (line,) = listed(capsys, str(tmp_path / "r.sqlite"))
    assert line["state"] == "ended"
    assert line["gain_over_fixed"] == pytest.approx(summary["gain_over_fixed"], abs=0.02)
    kinds = ("stage_faults", "probe_faults", "refused_commands")
    no_signal = summary["events"].get("no-signal", 0)
    assert line["faults"] == sum(summary[kind] for kind in kinds) + no_signal > 0


def test_the_gain_is_unknown_on_hardware_and_in_another_world(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("hardware", "another"):
        macontrol.run_simulated("fixed", CONFIG, slots=30, run_file=tmp_path / name)
    for name, change in (
        ("hardware", "UPDATE header SET value = '\"serial\"' WHERE key = 'backend'"),
        ("another", "UPDATE header SET value = '77' WHERE key = 'seed'"),
    ):
        with closing(sqlite3.connect(tmp_path / name)) as connection:
            connection.execute(change)
            connection.commit()
    found = {Path(line["file"]).name: line for line in listed(capsys, str(tmp_path))}
    assert {name: line["gain_over_fixed"] for name, line in found.items()} == {
        "hardware": None,
        "another": None,
    }
    assert "30 of 30 recorded rewards differ" in found["another"]["gain_unknown_because"]
    assert "hardware" in found["hardware"]["gain_unknown_because"]


def test_the_state_folder_is_the_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "state"))
    assert main(["runs"]) == 0
    assert f"no run files in {tmp_path / 'state'}" in capsys.readouterr().out
    (tmp_path / "state").mkdir()
    write_run(tmp_path / "state" / "sim.sqlite", range(1, 30))
    assert main(["runs"]) == 0
    assert str(tmp_path / "state" / "sim.sqlite") in capsys.readouterr().out


def test_runs_of_earlier_versions_damaged_and_empty_runs_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = write_run(tmp_path / "damaged", range(1, 30))
    with closing(sqlite3.connect(damaged)) as connection:
        connection.execute("DELETE FROM header WHERE key = 'seed'")
        connection.commit()
    empty = write_run(tmp_path / "empty", range(0))
    names = (str(damaged), str(empty), str(BEFORE / "run.sqlite"), str(BEFORE / "lab-run.sqlite"))
    found = {line["file"]: line for line in listed(capsys, *names)}
    assert [found[name]["slots"] for name in names] == [0, 0, 300, 200]
    assert "no seed" in found[names[0]]["problem"]
    assert found[names[1]]["mean_reward"] is None
    assert all(found[name]["gain_over_fixed"] > 0 for name in names[2:])
    assert main(["runs", *names]) == 0
    assert "is damaged" in capsys.readouterr().out


def test_wrong_usage_and_unusable_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text").write_text("x" * 500)
    for words, code in (
        (["--prune"], 64),
        (["--keep-runs", "3"], 64),
        (["--yes"], 64),
        (["--schema", "--json"], 64),
        (["--prune", "--json", "--keep-runs", "3"], 64),
        ([str(tmp_path / "text")], 65),
        ([str(tmp_path / "nothing")], 66),
    ):
        assert main(["runs", *words]) == code
    with pytest.raises(SystemExit, match="64"):
        main(["runs", "--prune", "--keep-runs", "0"])
    assert main(["runs", str(tmp_path)]) == 0  # a folder may have other files


def three_runs(folder: Path) -> list[Path]:
    """Runs, the newest first, and a file that is not a run file."""
    paths = [write_run(folder / f"run-{age}.sqlite", range(1, 9)) for age in (1, 2, 3)]
    for age, path in enumerate(paths, start=1):
        os.utime(path, (1_700_000_000 - age * 100,) * 2)
    (folder / "notes.sqlite").write_text("kept")
    return paths


def test_pruning_needs_a_yes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = three_runs(tmp_path)
    prune = ["runs", str(tmp_path), "--prune", "--keep-runs", "1"]
    assert main(prune) == 64  # no terminal
    assert all(path.exists() for path in paths)
    shown = capsys.readouterr().out
    assert [str(path) in shown for path in paths] == [False, True, True]
    assert main([*prune, "--yes"]) == 0
    assert [path.exists() for path in paths] == [True, False, False]
    assert (tmp_path / "notes.sqlite").read_text() == "kept"
    assert main([*prune, "--yes"]) == 0
    assert "nothing to remove" in capsys.readouterr().out


@pytest.mark.parametrize(("answer", "left"), [(b"n\n", 3), (b"\n", 3), (b"y\n", 1)])
def test_pruning_asks_on_a_terminal(tmp_path: Path, answer: bytes, left: int) -> None:
    paths = three_runs(tmp_path)
    command = [sys.executable, "-m", "macontrol", "runs", ".", "--prune", "--keep-runs", "1"]
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command, cwd=tmp_path, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        os.write(ours, answer)
        shown, _ = process.communicate()
    os.close(ours)
    os.close(theirs)
    assert process.returncode == 0
    assert b"[y/N]" in shown
    assert sum(path.exists() for path in paths) == left


def test_a_run_that_is_being_written_is_listed_and_not_pruned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [sys.executable, "-m", "macontrol", "--backend", "sim", "--preset", "demo"]
    path = tmp_path / "live.sqlite"
    options = ["--run", str(path), "--log", "json", "--name", "test-of-runs"]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while '"event": "start"' not in process.stdout.readline():
            pass
        (line,) = listed(capsys, str(path))
        assert line["state"] == "being recorded"
        assert main(["runs", str(tmp_path), "--prune", "--keep-mb", "0.000001", "--yes"]) == 0
        assert path.exists()
        process.terminate()
        process.communicate()
    assert process.returncode == 0
    (line,) = listed(capsys, str(path))
    assert line["state"] == "ended"
    assert main(["runs", str(tmp_path), "--prune", "--keep-mb", "0.000001", "--yes"]) == 0
    assert list(tmp_path.iterdir()) == []


def test_a_run_removes_the_benchs_earlier_runs_that_the_config_does_not_keep(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    earlier = [
        write_run(tmp_path / f"sim-2023111{day}T000000Z.sqlite", range(1, 9)) for day in (1, 2, 3)
    ]
    for age, path in enumerate(reversed(earlier)):
        os.utime(path, (1_700_000_000 - age * 100,) * 2)
    others = [
        write_run(tmp_path / name, range(1, 9))
        for name in ("other-20231111T000000Z.sqlite", "sim.sqlite", "sim-mine.sqlite")
    ]
    run = ["--backend", "sim", "--preset", "demo", "--slots", "3", "--log", "json"]
    assert main([*run, "--set", "run.keep_runs=2"]) == 0
    assert [path.exists() for path in earlier] == [False, False, True]
    assert all(path.exists() for path in others)
    (own, _) = runs_in(default_run_folder(), "sim")
    found = macontrol.open_run(own)
    assert str(EventKind.RECORDING) not in found.events["kind"], "a removal is not a problem"
    removed = found.events["detail"][found.events["kind"] == str(EventKind.REMOVED_RUN)]
    assert len(removed) == 2
    assert {path.name for path in earlier[:2]} == {Path(detail).name for detail in removed}
