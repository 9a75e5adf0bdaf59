"""The structure of the code: sizes, and things that have one home."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from macontrol.config.drivers import CHOICES

ROOT = Path(__file__).parents[3]
PRODUCTION = {
    path.relative_to(ROOT).as_posix(): path
    for room in ("config", "controller", "hal", "sim", "src/macontrol")
    for path in sorted((ROOT / room).rglob("*.py"))
    if not any(parent.is_symlink() for parent in path.parents if ROOT in parent.parents)
}
LONGEST = 400
HOMES = {"stage": "hal/stages", "probe": "hal/probes", "algorithm": "controller/policies"}
assert HOMES.keys() | {"reference"} == CHOICES.keys()  # its drivers are those of probes
THE_FIGURES_OF_THE_PAPER = "sim/research/figures/"
ERRORS = "config/model/errors.py"
EMULATED_BOARDS = "sim/bench/boards/"
EMULATED_INSTRUMENT = "sim/bench/scpi_syntax.py"


@cache
def nodes(module: str) -> list[ast.AST]:
    return list(ast.walk(ast.parse(PRODUCTION[module].read_text("utf-8"))))


@pytest.mark.parametrize("module", PRODUCTION)
def test_a_module_is_short_or_says_why_it_is_not(module: str) -> None:
    text = PRODUCTION[module].read_text("utf-8")
    reason = ast.get_docstring(ast.parse(text)) or ""
    assert len(text.splitlines()) <= LONGEST or f"longer than {LONGEST} lines" in reason


@pytest.mark.parametrize("section", HOMES)
def test_the_name_of_a_driver_or_policy_is_in_its_own_package_only(section: str) -> None:
    for name in set(CHOICES[section][1].built_in_names()) - {"fixed"}:  # an ordinary word
        home = f"{HOMES[section]}/{name.replace('-', '_')}/"
        places = {
            module
            for module in PRODUCTION
            for node in nodes(module)
            if isinstance(node, ast.Constant) and node.value == name
        }
        allowed = (home, THE_FIGURES_OF_THE_PAPER, EMULATED_BOARDS)
        assert [place for place in places if not place.startswith(allowed)] == []


@pytest.mark.parametrize("section", HOMES)
def test_no_other_package_imports_a_driver_or_policy(section: str) -> None:
    for name in CHOICES[section][1].built_in_names():
        package = f"macontrol.{HOMES[section].replace('/', '.')}.{name.replace('-', '_')}"
        importers = {
            module
            for module in PRODUCTION
            for node in nodes(module)
            if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(f"{package}.")
        }
        assert [module for module in importers if not module.startswith(HOMES[section])] == []


def test_all_error_types_are_in_one_module() -> None:
    places = {
        f"{module}: {node.name}"
        for module in PRODUCTION
        for node in nodes(module)
        if isinstance(node, ast.ClassDef)
        for base in map(ast.unparse, node.bases)
        if base == "Exception" or base.endswith("Error")
    }
    # An emulated board or instrument answers with an error of its own firmware.
    allowed = (ERRORS, EMULATED_BOARDS, EMULATED_INSTRUMENT)
    assert [place for place in places if not place.startswith(allowed)] == []
