"""`macontrol reproduce`: its output, its refusals, and interruptions."""

from __future__ import annotations

import csv
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import pytest

from macontrol.cli import main
from macontrol.config import load_config
from macontrol.config.model.suggestion import pip_install
from macontrol.sim.research.figures import FIGURES, PAPER_FIGURES
from macontrol.sim.research.outcome import Estimate, Outcome, Row
from macontrol.sim.research.report import BARS
from macontrol.sim.world.rewardmap import simulate_map, variation_budget
from support.figure_checks import assert_legends_cover_no_data

SMALL = ["--realizations", "2", "--slots", "150", "--jobs", "2"]


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("matplotlib")
    folder = tmp_path_factory.mktemp("all")
    for figures in ("offset", "all"):
        assert main(["reproduce", figures, *SMALL, "--out", str(folder)]) == 0
    return folder


def test_every_figure_is_drawn(everything: Path) -> None:
    for name in (*FIGURES, "main-over-time"):
        assert (everything / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (everything / f"{name}.svg").read_text("utf-8")


def outcome_of(folder: Path, name: str) -> Outcome:
    """The outcome of a figure, from the numbers that were written."""
    content = json.loads((folder / f"{name}.json").read_text("utf-8"))

    def estimate(row: dict[str, Any]) -> Estimate:
        return Estimate(row["mean"], row["standard_error"], row["realizations"])

    rows = [
        Row(**{key: row[key] for key in Row._fields[:-1]}, estimate=estimate(row))
        for row in content["rows"]
    ]
    quantities = {key: estimate(value) for key, value in content["quantities"].items()}
    return Outcome(rows, quantities, content["notes"], content["arrays"])


@pytest.mark.parametrize(
    ("figure", "drawing"),
    [
        ("main", "main"),
        ("main", "main-over-time"),
        *((name, name) for name in FIGURES if name != "main"),
    ],
)
def test_legends_cover_no_data_and_error_bars_are_explained(
    everything: Path, figure: str, drawing: str
) -> None:
    from macontrol.sim.research.plots.figures import DRAWINGS
    from macontrol.sim.research.plots.style import paper_style

    with paper_style():
        drawn = DRAWINGS[figure][drawing](outcome_of(everything, figure))
        assert_legends_cover_no_data(drawn)
        explained = drawn.get_supxlabel()
    assert re.search(r"(bars|Bands): ± one standard error .* over 2 realizations$", explained)


def test_a_figure_shows_the_settings_that_were_changed(everything: Path) -> None:
    from macontrol.sim.research.plots.figures import DRAWINGS
    from macontrol.sim.research.plots.style import paper_style

    outcome = outcome_of(everything, "main")
    outcome.notes["changed settings"] = "channel.sub_ray_phases = random"
    with paper_style():
        below = DRAWINGS["main"]["main"](outcome).get_supxlabel()
    assert below.endswith("\nchannel.sub_ray_phases = random")


def test_every_number_comes_with_its_standard_error(everything: Path) -> None:
    for name in FIGURES:
        content = json.loads((everything / f"{name}.json").read_text("utf-8"))
        with (everything / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == len(content["rows"]) > 0
        for row, same in zip(rows, content["rows"], strict=True):
            assert float(row["mean"]) == same["mean"]
            assert float(row["standard_error"]) == same["standard_error"] >= 0
            assert int(row["realizations"]) == 2


def test_the_table_has_every_bar_and_the_summary_says_the_same(everything: Path) -> None:
    lines = (everything / "table.md").read_text("utf-8").splitlines()[2:]
    summary = json.loads((everything / "summary.json").read_text("utf-8"))
    assert len(lines) == len(summary["table"])
    assert len(lines) == sum(bar.figure in PAPER_FIGURES for bar in BARS)
    assert summary["runs_that_violate_the_theory"] == 0
    for line, row in zip(lines, summary["table"], strict=True):
        assert line.startswith(f"| {row['quantity']}")
        assert line.endswith(f"| {row['verdict']} |")
        assert row["verdict"] == ("–" if row["bar"] == "reported" else "not comparable")


def test_a_smaller_reproduction_is_not_comparable_with_the_bars(
    everything: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(everything)
    arguments = ["reproduce", "main", *SMALL, "--no-plots", "--out", folder]
    assert main(arguments) == 0
    output = capsys.readouterr().out
    assert "main.csv, main.json, table.md, summary.json" in output
    assert "results exist already" in output
    assert "MoveUCB N_sw" in output
    assert "48 realizations of 15300 slots" in output
    assert "MISS" not in output
    assert main([*arguments, "--strict"]) == 1


def test_a_setting_changes_every_world_and_is_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    size = ["--realizations", "1", "--slots", "100", "--jobs", "1", "--no-plots"]
    random = ["--set", "channel.sub_ray_phases=random"]
    assert main(["reproduce", "main", *size, *random, "--out", str(tmp_path)]) == 0
    assert "channel.sub_ray_phases = random" in capsys.readouterr().out
    summary = json.loads((tmp_path / "summary.json").read_text("utf-8"))
    assert summary["changed_settings"] == {"channel.sub_ray_phases": "random"}
    notes = json.loads((tmp_path / "main.json").read_text("utf-8"))["notes"]
    assert notes["changed settings"] == "channel.sub_ray_phases = random"
    world = simulate_map(load_config(assignments=["channel.sub_ray_phases=random"]), 1, 100)
    (variation,) = (row["mean"] for row in summary["table"] if row["quantity"] == "V_T/T")
    assert variation == pytest.approx(variation_budget(world.reward) / 100)


def test_how_far_the_maximizer_moves_is_compared_with_the_paper(everything: Path) -> None:
    config = load_config()
    steps = []
    for seed in (1, 2):
        best = simulate_map(config, seed, 150).reward.argmax(axis=1)
        steps.append([abs(b - a) for a, b in itertools.pairwise(best.tolist())])
    short = [[step for step in each if step <= 6] for each in steps]
    expected = [sum(0.01 * sum(each) / len(each) for each in kind) / 2 for kind in (steps, short)]
    table = json.loads((everything / "summary.json").read_text("utf-8"))["table"]
    drift = [row for row in table if row["quantity"].startswith("drift of the per-slot")]
    assert [row["mean"] for row in drift] == pytest.approx(expected)
    assert [row["paper"] for row in drift] == ["0.010 λ"] * 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["main", "--scheduler", "tcp://127.0.0.1:1"], "--engine dask"),
        (["main", "--slots", "99"], "at least 100"),
        (["figure-9"], "no choice 'figure-9'"),
        (["main", "--realizations", "0"], "at least 1"),
        (["main", "--set", "run.horizon=200"], "--slots"),
        (["main", "--set", "channel.scenario=dense"], "the figures set this"),
    ],
)
def test_contradicting_arguments_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    def leave() -> NoReturn:
        sys.exit(main(["reproduce", *arguments, "--out", str(tmp_path / "out")]))

    with pytest.raises(SystemExit) as leaving:  # argparse exits by itself
        leave()
    assert leaving.value.code == 64
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("module", "arguments", "package"),
    [
        ("matplotlib", [], "matplotlib"),
        ("distributed", ["--engine", "dask", "--no-plots"], "dask[distributed]"),
    ],
)
def test_a_missing_package_comes_with_the_command_that_installs_it(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    module: str,
    arguments: list[str],
    package: str,
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    code = main(["reproduce", "main", *SMALL, *arguments, "--out", str(tmp_path)])
    assert code == 64
    assert pip_install(package) in capsys.readouterr().err


def test_a_scheduler_that_does_not_answer_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("macontrol.sim.research.executor.CONNECT_TIMEOUT_S", 0.5)
    address = ["--engine", "dask", "--scheduler", "tcp://127.0.0.1:9"]
    code = main(["reproduce", "main", *SMALL, *address, "--no-plots", "--out", str(tmp_path)])
    assert code == 69
    assert "no Dask scheduler answers" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    code = main(["reproduce", "main", *SMALL, "--no-plots", "--out", str(tmp_path / "file")])
    assert code == 74
    assert "cannot be written" in capsys.readouterr().err


@pytest.fixture
def reproduction(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A reproduction of half a minute in its own session, after its first result."""
    command = [sys.executable, "-m", "macontrol", "reproduce", "confidence", "--no-plots"]
    size = ["--realizations", "150", "--slots", "300", "--jobs", "2", "--out", str(tmp_path)]
    with subprocess.Popen(
        [*command, *size],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            while process.poll() is None and not any((tmp_path / "results").glob("*.json")):
                time.sleep(0.05)
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def assert_session_ends(session: int) -> None:
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline:
        try:
            os.killpg(session, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    pytest.fail("processes are left behind")


def test_an_interruption_says_how_to_resume_and_leaves_no_process(
    reproduction: subprocess.Popen[str], tmp_path: Path
) -> None:
    os.killpg(reproduction.pid, signal.SIGINT)  # Ctrl-C on a terminal reaches the whole group
    _, output = reproduction.communicate(timeout=60)
    assert reproduction.returncode == 130
    assert "results are kept in" in output
    assert "Traceback" not in output
    assert_session_ends(reproduction.pid)
    assert not list((tmp_path / "results").glob("*.part"))


def test_workers_end_with_a_killed_reproduction(reproduction: subprocess.Popen[str]) -> None:
    reproduction.kill()
    reproduction.communicate(timeout=60)
    assert_session_ends(reproduction.pid)


def test_a_dead_worker_is_reported_with_what_to_do(
    reproduction: subprocess.Popen[str], tmp_path: Path
) -> None:
    children = Path(f"/proc/{reproduction.pid}/task/{reproduction.pid}/children")
    if not children.exists():
        pytest.skip("needs /proc to find a worker")
    workers = [
        int(child)
        for child in children.read_text().split()
        if "spawn_main" in Path(f"/proc/{child}/cmdline").read_text()
    ]
    os.kill(workers[0], signal.SIGKILL)
    _, output = reproduction.communicate(timeout=60)
    assert reproduction.returncode == 70
    assert "a worker process died" in output
    assert "run the same command again" in output
    assert_session_ends(reproduction.pid)
