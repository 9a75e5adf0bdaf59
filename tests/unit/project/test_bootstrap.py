"""The environment of `make demo`: its packages, and that it runs this checkout."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path
from types import ModuleType

import pytest

from macontrol import __version__

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def bootstrap() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bootstrap", ROOT / "bootstrap.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_command_runs_this_checkout_from_a_folder_with_a_space(
    bootstrap: ModuleType, tmp_path: Path
) -> None:
    folder = tmp_path / "my lab" / "it's"
    venv.create(folder, symlinks=True)
    bootstrap.link_source(folder / "bin" / "python")
    # The dependencies come from the environment of the tests, the command from the new one.
    environment = {**os.environ, "PYTHONPATH": sysconfig.get_path("purelib")}
    command = [str(folder / "bin" / "macontrol"), "--version"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == f"macontrol {__version__}\n", done.stderr
    ask = [
        str(folder / "bin" / "python"),
        "-P",
        "-c",
        "import macontrol; print(macontrol.__file__)",
    ]
    done = subprocess.run(ask, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.strip() == str(ROOT / "src" / "macontrol" / "__init__.py")


def names_in(lock: str) -> set[str]:
    return set(re.findall(r"^([\w.-]+)==", lock, re.MULTILINE))


def test_a_run_gets_the_whole_lock_with_hashes_but_not_the_build_tool(
    bootstrap: ModuleType, tmp_path: Path
) -> None:
    large, others = (file.read_text("utf-8") for file in bootstrap.split_lock(tmp_path))
    assert names_in(large) == set(bootstrap.LARGE)
    whole = names_in((ROOT / "requirements.lock").read_text("utf-8"))
    assert names_in(large) | names_in(others) | set(bootstrap.BUILD) == whole
    for entry in re.split(r"\n(?=[a-z])", f"{large}{others}"):
        assert "--hash=sha256:" in entry


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock"])
def test_a_lock_names_no_index_and_every_file_has_a_hash(name: str) -> None:
    lock = (ROOT / name).read_text("utf-8")
    assert "://" not in lock
    assert "index" not in lock
    for entry in re.findall(r"^[^\s#].*(?:\n +.*)*\n", lock, re.MULTILINE):
        assert "--hash=sha256:" in entry


def test_the_lock_of_a_run_is_part_of_the_lock_of_the_tests() -> None:
    run, dev = (
        set(re.findall(r"^[\w.-]+==[^\\]*", (ROOT / name).read_text("utf-8"), re.MULTILINE))
        for name in ("requirements.lock", "requirements-dev.lock")
    )
    assert run <= dev


def test_the_lock_of_a_run_has_every_dependency_of_pyproject() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    direct = {re.split(r"[^\w.-]", each, maxsplit=1)[0] for each in project["dependencies"]}
    assert direct <= names_in((ROOT / "requirements.lock").read_text("utf-8"))


def test_every_dependency_has_a_lower_bound() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    for each in [*project["dependencies"], *(entry for extra in extras for entry in extra)]:
        assert ">=" in each or each.startswith("macontrol["), each


STUB = """
import sys
print("Looking in links: /somewhere")
print("Collecting numpy==2.0")
print("  Downloading https://host/numpy-2.0-py3-none-any.whl (16.8 MB)", flush=True)
print("  Using cached rich-15.0.0-py3-none-any.whl (1 kB)")
print("Installing collected packages: numpy, rich")
sys.exit(3 if "bad" in sys.argv else 0)
"""


@pytest.mark.parametrize(
    ("groups", "code"), [([["numpy"], ["rich"]], 0), ([["numpy"], ["bad"]], 3), ([["bad"], []], 3)]
)
def test_the_steps_of_every_pip_are_shown_and_a_failure_fails(
    bootstrap: ModuleType, groups: list[list[str]], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bootstrap.install([sys.executable, "-c", STUB], groups) == code
    shown = [line.partition("] ")[2] for line in capsys.readouterr().out.splitlines()]
    steps = ["downloading numpy (16.8 MB)", "using cached rich (1 kB)", "installing numpy, rich"]
    assert sorted(shown) == sorted(steps * 2)
