"""Helper processes execute nothing from the working directory."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from macontrol import __version__
from macontrol.commands.bench import comparison
from macontrol.display import live_view
from macontrol.display.live_view import LiveView
from macontrol.helper_process import python_module
from macontrol.sim.research.executor import ProcessPool
from support.display_run import a_run

ROOT = Path(__file__).parents[3]
# Modules that the standard library, the dependencies and a starting worker import.
NAMES = ("json", "numpy", "rich", "structlog", "pickle", "runpy", "socket", "signal", "macontrol")


@pytest.fixture
def traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with modules that write a file here when they are executed."""
    folder, traces = tmp_path / "hostile", tmp_path / "traces"
    folder.mkdir()
    traces.mkdir()
    for name in NAMES:
        (folder / f"{name}.py").write_text(f"open({str(traces / name)!r}, 'w').close()\n")
    monkeypatch.chdir(folder)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    return traces


def executed(traces: Path) -> list[str]:
    return sorted(trace.name for trace in traces.iterdir())


@pytest.mark.fault("working-directory-code")
def test_the_live_view_executes_nothing_from_the_working_directory(
    traces: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(live_view, "_CLOSE_WITHIN_S", 20.0)
    view = LiveView(a_run())
    view.start()
    view.close()
    assert view._process is not None
    assert view._process.returncode == 0, capfd.readouterr().err
    assert executed(traces) == []


def test_a_benchmarks_processes_execute_nothing_from_the_working_directory(traces: Path) -> None:
    done = subprocess.run([*comparison._MACONTROL, "--version"], capture_output=True, text=True)
    assert __version__ in done.stdout
    assert executed(traces) == []


@pytest.mark.fault("working-directory-code")
def test_a_pools_workers_execute_nothing_from_the_working_directory(traces: Path) -> None:
    with ProcessPool(1) as pool:
        assert pool.submit(os.getpid).result(60) != os.getpid()
    assert executed(traces) == []
    assert "PYTHONSAFEPATH" not in os.environ


def test_every_python_process_is_started_by_helper_process() -> None:
    """Another way to start one could execute code of the working directory."""
    rooms = [ROOT / name for name in ("config", "controller", "hal", "sim", "src/macontrol")]
    users = {
        path.relative_to(ROOT).as_posix()
        for room in rooms
        for path in room.rglob("*.py")
        if "sys.executable" in path.read_text(encoding="utf-8")
    }
    printed_only = {"config/model/suggestion.py"}  # a command for the user to type
    assert users - printed_only == {"src/macontrol/helper_process.py"}
    assert "-P" in python_module("macontrol")
