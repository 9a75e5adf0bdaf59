"""`macontrol reproduce`: what it writes, what it refuses, and how it is interrupted."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import pytest

from macontrol.cli import main
from macontrol.sim.campaign.bars import BARS
from macontrol.sim.campaign.figures import FIGURES

SMALL = ["--realizations", "2", "--slots", "150", "--jobs", "2"]


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("matplotlib")
    folder = tmp_path_factory.mktemp("all")
    assert main(["reproduce", "all", *SMALL, "--out", str(folder)]) == 0
    return folder


def test_every_figure_is_drawn(everything: Path) -> None:
    for name in (*FIGURES, "main-over-time"):
        assert (everything / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (everything / f"{name}.svg").read_text("utf-8")


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
    assert len(lines) == len(summary["table"]) == len(BARS)
    assert summary["runs_that_violate_the_theory"] == 0
    for line, row in zip(lines, summary["table"], strict=True):
        assert line.startswith(f"| {row['quantity']}")
        verdict = {True: "pass", False: "MISS", None: "–"}[row["pass"]]
        assert line.endswith(f"| {verdict} |")


def test_a_smaller_campaign_says_that_the_bars_are_not_set_for_it(
    everything: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(everything)
    arguments = ["reproduce", "main", *SMALL, "--no-plots", "--out", folder]
    assert main(arguments) == 0
    told = capsys.readouterr().out
    assert "results are there already" in told
    assert "MoveUCB N_sw" in told
    assert "48 realizations of 15300 slots" in told
    assert main([*arguments, "--strict"]) == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["main", "--scheduler", "tcp://127.0.0.1:1"], "--engine dask"),
        (["main", "--slots", "99"], "at least 100"),
        (["figure-9"], "invalid choice"),
        (["main", "--realizations", "0"], "at least 1"),
    ],
)
def test_what_does_not_fit_together_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    def leave() -> NoReturn:
        sys.exit(main(["reproduce", *arguments, "--out", str(tmp_path / "out")]))

    with pytest.raises(SystemExit) as leaving:  # argparse leaves by itself
        leave()
    assert leaving.value.code == 64
    assert told in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("module", "arguments", "extra"),
    [
        ("matplotlib", [], "macontrol[plot]"),
        ("distributed", ["--engine", "dask", "--no-plots"], "macontrol[dask]"),
    ],
)
def test_a_missing_extra_is_named(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    module: str,
    arguments: list[str],
    extra: str,
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    code = main(["reproduce", "main", *SMALL, *arguments, "--out", str(tmp_path)])
    assert code == 64
    assert extra in capsys.readouterr().err


def test_a_scheduler_that_does_not_answer_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("macontrol.sim.campaign.executor.CONNECT_TIMEOUT_S", 0.5)
    address = ["--engine", "dask", "--scheduler", "tcp://127.0.0.1:9"]
    code = main(["reproduce", "main", *SMALL, *address, "--no-plots", "--out", str(tmp_path)])
    assert code == 69
    assert "no Dask scheduler answers" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    code = main(["reproduce", "main", *SMALL, "--no-plots", "--out", str(tmp_path / "file")])
    assert code == 74
    assert "cannot be written" in capsys.readouterr().err


@pytest.fixture
def campaign(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A campaign of half a minute in a session of its own, once its first result is there."""
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


@pytest.mark.skipif(
    sys.version_info < (3, 11, 5),
    reason="process pools of this Python can hang when a worker dies (CPython issue 105829)",
)
def test_an_interrupted_campaign_says_how_to_resume_and_leaves_no_process(
    campaign: subprocess.Popen[str], tmp_path: Path
) -> None:
    os.killpg(campaign.pid, signal.SIGINT)  # Ctrl-C on a terminal reaches the whole group
    _, told = campaign.communicate(timeout=60)
    assert campaign.returncode == 130
    assert "To resume, give the same command again" in told
    assert "Traceback" not in told
    assert_session_ends(campaign.pid)
    assert not list((tmp_path / "results").glob("*.part"))


def test_workers_do_not_outlive_a_killed_campaign(campaign: subprocess.Popen[str]) -> None:
    campaign.kill()
    campaign.communicate(timeout=60)
    assert_session_ends(campaign.pid)


@pytest.mark.skipif(
    sys.version_info < (3, 11, 5),
    reason="process pools of this Python can hang when a worker dies (CPython issue 105829)",
)
def test_a_dead_worker_is_told_with_what_to_do(
    campaign: subprocess.Popen[str], tmp_path: Path
) -> None:
    children = Path(f"/proc/{campaign.pid}/task/{campaign.pid}/children")
    if not children.exists():
        pytest.skip("needs /proc to find a worker")
    workers = [
        int(child)
        for child in children.read_text().split()
        if "spawn_main" in Path(f"/proc/{child}/cmdline").read_text()
    ]
    os.kill(workers[0], signal.SIGKILL)
    _, told = campaign.communicate(timeout=60)
    assert campaign.returncode == 70
    assert "a worker process died" in told
    assert "resumes from it" in told
    assert_session_ends(campaign.pid)
