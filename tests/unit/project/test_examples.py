"""The code in the README, the tutorials and the notebooks runs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
BENCH = """
preset = "lab-2g4-grbl"

[physical]
region_length = 1.5
actuator_speed_m_per_s = 0.1
acceleration_m_per_s2 = 1.0
actuation_time_s = 0.12

[survey]
samples = 3

[stage]
driver = "my_stage:DESCRIPTION"
"""
TUTORIALS = sorted((ROOT / "docs").glob("write-*.md"))


def blocks_of(page: Path) -> list[str]:
    found = BLOCK.findall(page.read_text("utf-8"))
    assert found
    return found


def run(page: Path) -> dict[str, Any]:
    """Run the blocks of a page one after the other, and return their names."""
    names: dict[str, Any] = {"__name__": page.stem}
    for block in blocks_of(page):
        exec(compile(block, str(page), "exec"), names)
    return names


def code_lines(text: str) -> int:
    return len([line for line in text.splitlines() if line.strip()])


def test_the_code_of_the_readme_runs_and_has_about_twenty_lines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run(ROOT / "README.md")
    regrets = [float(line.split()[-1]) for line in capsys.readouterr().out.splitlines()]
    assert len(regrets) == 2
    assert all(0 < regret < 1 for regret in regrets)
    assert sum(code_lines(block) for block in blocks_of(ROOT / "README.md")) <= 20


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_the_code_of_a_tutorial_runs(
    page: Path,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    run(page)
    assert capsys.readouterr().out


@pytest.fixture
def tutorial_drivers(tmp_path: Path) -> Path:
    """A folder with the code of the tutorials for drivers, one module each."""
    for kind in ("stage", "probe"):
        blocks = blocks_of(ROOT / f"docs/write-a-{kind}.md")
        (tmp_path / f"my_{kind}.py").write_text("\n".join(blocks), "utf-8")
    return tmp_path


@pytest.mark.parametrize("kind", ["stage", "probe"])
def test_the_driver_of_a_tutorial_keeps_its_contract(tutorial_drivers: Path, kind: str) -> None:
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", f"my_{kind}.py"]
    done = subprocess.run(
        [sys.executable, *words], cwd=tutorial_drivers, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


def test_the_drivers_of_the_tutorials_run_by_reference(tutorial_drivers: Path) -> None:
    (tutorial_drivers / "snr.txt").write_text("17.5")
    (tutorial_drivers / "bench.toml").write_text(BENCH)
    code = "import sys; sys.path.pop(0)\nfrom macontrol.cli import main\nsys.exit(main())"
    words = ["--backend", "serial", "--config", "bench.toml", "--probe", "my_probe:DESCRIPTION"]
    words += ["--port", "rail", "--yes", "--slots", "5", "--log", "json"]
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=tutorial_drivers, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    # The page prints a measurement, too.
    *_, summary = (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
    assert (summary["slots"], summary["refused_commands"]) == (5, 0)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_is_stored_without_outputs(path: Path) -> None:
    pytest.importorskip("ipykernel", reason="the extra `notebook` is not installed")
    nbclient, nbformat = map(pytest.importorskip, ("nbclient", "nbformat"))
    stored = json.loads(path.read_text("utf-8"))
    code = [cell for cell in stored["cells"] if cell["cell_type"] == "code"]
    assert [cell["outputs"] for cell in code] == [[]] * len(code)
    assert sum(code_lines("".join(cell["source"])) for cell in code) < 40

    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=100, kernel_name="python3").execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert any("moveucb" in output.get("text", "") for output in outputs)
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert [output for output in outputs if output.get("name") == "stderr"] == []
