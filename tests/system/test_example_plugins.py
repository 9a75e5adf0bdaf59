"""The examples install with pip beside macontrol and run; a broken plug-in is one clear message."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ("policy", "probe", "stage")
for tool in ("pip", "setuptools"):
    # Found, not imported: setuptools fails to import once another test has loaded distutils.
    if importlib.util.find_spec(tool) is None:
        pytest.skip(f"{tool} installs the examples, and is missing", allow_module_level=True)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the examples, and an environment with macontrol and all of them installed."""
    lab = tmp_path_factory.mktemp("lab")
    ignored = shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
    shutil.copytree(ROOT / "examples", lab, ignore=ignored, dirs_exist_ok=True)
    environment = lab / "environment"
    venv.create(environment, with_pip=False)
    # Everything that these tests have, macontrol of this checkout first.
    folders = [str(ROOT / "src"), *(path for path in sys.path if path.endswith("-packages"))]
    (site_packages,) = environment.glob("lib/python*/site-packages")
    lines = [folders[0], *(f"import site; site.addsitedir({path!r})" for path in folders[1:])]
    (site_packages / "these-tests.pth").write_text("\n".join(lines), "utf-8")
    pip = ["-m", "pip", "--disable-pip-version-check", "install", "-q", "--no-index"]
    pip += ["--no-deps", "--no-build-isolation", "--no-cache-dir"]
    python(lab, *pip, *(f"./{name}" for name in EXAMPLES))
    return lab


def python(lab: Path, *words: str, code: int = 0, cwd: Path | None = None) -> str:
    """Run the Python of the environment; return what it prints on standard output."""
    done = run(lab, *words, cwd=cwd)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def run(lab: Path, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(lab / "environment/bin/python"), *words],
        cwd=cwd or lab,
        # pip and pytest take options from the environment, also those of these tests.
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=110,
    )


def macontrol(lab: Path, *words: str, code: int = 0) -> str:
    return python(lab, "-P", "-m", "macontrol", *words, code=code)


def test_they_are_listed_with_their_settings(lab: Path) -> None:
    found = {each["name"]: each for each in json.loads(macontrol(lab, "plugins", "--json"))}
    for name, kind, settings in (
        ("best-seen", "policy", {"memory", "curiosity"}),
        ("throughput", "probe", {"command", "interval_s", "bandwidth_hz", "silence_s"}),
        ("stepper", "stage", {"board"}),
    ):
        assert (found[name]["kind"], found[name]["state"]) == (kind, "ok")
        assert set(found[name]["settings"]) == settings
    assert [each["name"] for each in found.values() if each["state"] == "broken"] == []


@pytest.mark.parametrize("example", EXAMPLES)
def test_its_own_tests_pass(lab: Path, example: str) -> None:
    done = run(lab, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=lab / example)
    assert done.returncode == 0, done.stdout


def test_the_policy_runs_on_the_simulated_bench(lab: Path) -> None:
    words = ["--backend", "sim", "--fast", "--slots", "400", "--log", "json"]
    words += ["--policy", "best-seen", "--set", "algorithm.best-seen.curiosity=0.2"]
    summary = json.loads(macontrol(lab, *words).splitlines()[-1])
    assert summary["slots"] == 400
    assert summary["switches"] > 10


@pytest.fixture(scope="module")
def stepper_bench(lab: Path) -> Iterator[str]:
    """A virtual bench with the example's stage at the link `port`; the address of its radio."""
    command = [str(lab / "environment/bin/python"), "-P", "-m", "macontrol", "virtual-bench"]
    command += ["--stage", "stepper", "--link", "port", "--rtl-tcp", "127.0.0.1:0"]
    with subprocess.Popen(
        command, cwd=lab, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    ) as bench:
        assert bench.stdout is not None
        try:
            yield bench.stdout.readline().partition("radio on ")[2].partition(";")[0]
        finally:
            bench.terminate()


def test_the_stage_is_a_choice_of_the_command_line(lab: Path) -> None:
    assert "stepper" in macontrol(lab, "check", "--help").partition("--stage {")[2].split("}")[0]
    assert "fits the slot" in macontrol(lab, "check", "--preset", "lab-stepper")
    macontrol(lab, "devices")


def test_the_stage_passes_the_doctor(lab: Path, stepper_bench: str) -> None:
    words = ["check", "--backend", "serial", "--stage", "stepper", "--port", "port"]
    done = run(lab, "-P", "-m", "macontrol", *words, "--probe", f"rtl_tcp://{stepper_bench}")
    # On a busy computer the emulated radio may lose samples, which is not about the stage.
    results = {line[6:17].strip(): line[:4] for line in done.stdout.splitlines()}
    assert "stepper board rail-1" in done.stdout
    assert {results[name] for name in ("board", "settings", "homing")} == {"pass"}


def test_the_stage_runs_on_the_virtual_bench(lab: Path, stepper_bench: str) -> None:
    words = ["--backend", "serial", "--preset", "lab-stepper", "--port", "port", "--yes"]
    words += ["--set", "survey.samples=9", "--slots", "20", "--log", "json"]
    output = macontrol(lab, *words, "--probe", f"rtl_tcp://{stepper_bench}")
    summary = json.loads(output.splitlines()[-1])
    assert summary["slots"] == 20
    assert summary["refused_commands"] == 0
    assert summary["travel"] > 0


def test_the_stage_is_found_by_reference_with_its_preset(lab: Path) -> None:
    code = "import sys; sys.path.pop(0)\nfrom macontrol.cli import main\nsys.exit(main())"
    words = ["virtual-bench", "--stage", "stepper_stage:DESCRIPTION", "--rtl-tcp", "127.0.0.1:0"]
    output = python(lab, "-c", code, *words, "--duration", "0.1")
    assert "--stage stepper_stage:DESCRIPTION" in output
    assert "--preset" not in output
