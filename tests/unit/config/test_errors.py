"""An error of a plug-in's code names the place in that code."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from macontrol.config.model.errors import PROBE_CODE, ProbeError, described, place_of


def error_of_import(module: str) -> BaseException:
    with pytest.raises(BaseException) as raised:  # noqa: PT011  # whatever the module raises
        import_module(module)
    return raised.value


@pytest.mark.parametrize(
    "line",
    ["import no_such_module", "from json import no_such_name", "raise SystemExit(3)", "1 / 0"],
)
def test_an_import_that_fails_names_the_line_of_the_plug_in(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_plug_in.py").write_text(f"\n\n{line}\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert place_of(error_of_import("broken_plug_in")) == "broken_plug_in.py, line 3"


def test_a_plug_in_that_imports_a_broken_one_names_the_broken_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "outer_plug_in.py").write_text("import inner_plug_in\n")
    (tmp_path / "inner_plug_in.py").write_text("\nimport no_such_module\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert place_of(error_of_import("outer_plug_in")) == "inner_plug_in.py, line 2"


def test_a_module_that_does_not_exist_has_no_place() -> None:
    error = error_of_import("no_such_module")
    assert place_of(error) == ""
    assert described(error) == f"ModuleNotFoundError: {error}"


def test_an_error_that_was_not_raised_has_no_place() -> None:
    assert place_of(ValueError("x")) == ""


def test_the_code_of_a_driver_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lab_driver.py").write_text("def act():\n    raise KeyError('no idea')\n")
    monkeypatch.syspath_prepend(tmp_path)
    driver = import_module("lab_driver")
    with pytest.raises(ProbeError) as fault, PROBE_CODE:
        driver.act()
    assert "(lab_driver.py, line 2)" in fault.value.detail
