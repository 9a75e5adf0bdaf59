"""The contract suites fail on a wrong driver: for every rule, on the test of that rule only."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias
from xml.etree import ElementTree

import pytest

from macontrol.testing import PolicyContract, ProbeContract, SerialStageContract, StageContract

HERE = Path(__file__).parent
PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider"]
Failures: TypeAlias = dict[str, dict[str, str]]
KINDS: dict[str, type[Any]] = {
    "policies": PolicyContract,
    "probes": ProbeContract,
    "stages": StageContract,
    "serial_stages": SerialStageContract,
}


@cache
def module(kind: str) -> ModuleType:
    spec = spec_from_file_location(f"wrong_{kind}", HERE / f"wrong_{kind}.py")
    assert spec is not None
    assert spec.loader is not None
    found = module_from_spec(spec)
    sys.modules[spec.name] = found
    spec.loader.exec_module(found)
    return found


def suites(kind: str) -> dict[str, Any]:
    return {name: each for name, each in vars(module(kind)).items() if name.startswith("Test")}


def rules(suite: type[Any]) -> set[str]:
    """The rules of a suite, without those that it inherits and `stages` breaks."""
    inherited = {name for base in suite.__bases__ for name in dir(base)}
    return {name for name in dir(suite) if name.startswith("test_") and name not in inherited}


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Failures]:
    """Run the suites of one kind; the failed tests of each wrong driver, with their messages."""

    @cache
    def run(kind: str) -> Failures:
        found: Failures = defaultdict(dict)
        report = tmp_path_factory.mktemp("wrong") / "report.xml"
        subprocess.run(
            [*PYTEST, f"--junitxml={report}", str(HERE / f"wrong_{kind}.py")],
            cwd=HERE.parents[2],
            capture_output=True,
            timeout=400,
        )
        for case in ElementTree.parse(report).iter("testcase"):
            for outcome in [*case.iter("failure"), *case.iter("error")]:
                name = case.attrib["classname"].rpartition(".")[2]
                found[name][case.attrib["name"]] = outcome.attrib["message"]
        return found

    return run


@pytest.mark.timeout(420)  # the first one runs all suites of its kind
@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in KINDS for name in suites(kind)]
)
def test_a_wrong_driver_fails_the_test_of_its_rule(
    failures: Callable[[str], Failures], kind: str, name: str
) -> None:
    found = failures(kind)[name]
    assert set(found) == set(suites(kind)[name].breaks)
    for message in found.values():
        assert not message.startswith("assert"), "the message does not name the rule"


@pytest.mark.parametrize("kind", KINDS)
def test_every_rule_has_a_wrong_driver(kind: str) -> None:
    broken = {rule for suite in suites(kind).values() for rule in suite.breaks}
    assert broken == rules(KINDS[kind])


@pytest.mark.parametrize("travel_mm", [200.0, 200.005, 0.3, 17.0])
@pytest.mark.parametrize("step_mm", [0.0, 0.0125, 0.3, 0.29])
def test_the_rules_stay_on_the_rail(travel_mm: float, step_mm: float) -> None:
    about = module("stages").ABOUT
    stage = type("Stage", (), {"description": about})()
    stage.description = type(about)("x", travel_mm, step_mm, 1.0, 1.0, 0.0, 0.0)
    for share in (0.0, 0.05, 0.1, 0.9, 1.0):
        assert 0 <= StageContract().at(stage, share) <= travel_mm


def test_pytest_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("macontrol.testing")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pytest", None)
    with pytest.raises(ImportError, match="pip install"):
        import_module("macontrol.testing")


def test_the_promised_names_are_documented() -> None:
    import macontrol.testing

    for name in macontrol.testing.__all__:
        assert name == "UNPLUGGED" or getattr(macontrol.testing, name).__doc__
    page = (HERE.parents[2] / "docs" / "test-a-plug-in.md").read_text()
    assert [name for name in macontrol.testing.__all__ if f"`{name}`" not in page] == []
