"""Every number or command that a message suggests is accepted when it is typed in."""

from __future__ import annotations

import shlex
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from macontrol.config import load_config, preset_names
from macontrol.config.model.errors import ConfigError
from macontrol.config.model.rounding import at_least, at_most, close_to
from macontrol.config.model.suggestion import pip_install
from macontrol.controller.policies.estimate import make_posterior
from support.suggestions import suggestions

positive = st.floats(min_value=1e-12, max_value=1e12)


@given(value=positive, digits=st.integers(1, 15))
def test_rounding_stays_on_the_safe_side_and_near(value: float, digits: int) -> None:
    low, high = float(at_most(value, digits)), float(at_least(value, digits))
    assert low <= value <= high
    assert high - low <= value * 10.0 ** (1 - digits) * (1 + 1e-9)


@given(value=positive)
def test_what_is_short_already_is_left_as_it_is(value: float) -> None:
    short = float(f"{value:.5g}")
    assert float(at_most(short)) == float(at_least(short)) == float(close_to(short)) == short


def test_a_sum_that_is_off_by_its_rounding_is_written_short() -> None:
    assert close_to(0.1 + 0.2) == "0.3"


REFUSED = [
    ["physical.actuation_time_s=0.005"],
    ["physical.actuation_time_s=7"],
    ["physical.slot_duration_s=0.001"],
    ["physical.slot_duration_s=0.0011"],
    ["timing.guard_share=0.3", "timing.decision_share=0.8"],
    ["timing.decision_share=0.8"],
    ["timing.decision_share=0.4", "timing.guard_share=0.73333"],
    ["physical.stroke=0.0600416"],
    ["physical.stroke=0.009"],
    ["physical.stroke=0.0071"],
    ["physical.stroke=0.06", "algorithm.grid_spacing=0.07"],
    ["physical.region_length=1", "algorithm.grid_spacing=0.08", "physical.stroke=0.0599"],
    ["algorithm.grid_spacing=0.011"],
    ["algorithm.grid_spacing=7"],
    ["algorithm.grid_spacing=1e-5"],
    ["physical.region_length=1234.56789", "algorithm.grid_spacing=0.011"],
    ["physical.region_length=3333.3333333", "algorithm.grid_spacing=1e-3"],
    ["physical.step_mm=0.7"],
    ["physical.initial_position=7", "physical.region_length=6.1234567891", "survey.samples=2"],
    ["channel.shadow_extent=7", "physical.region_length=6.1234567891", "survey.samples=2"],
    ["survey.samples=602"],
    ["algorithm.policy=sweep-and-hold", "algorithm.sweep_period=100"],
    ["algorithm.policy=sweep-and-hold", "algorithm.sweep_period=9", "physical.stroke=0.0373"],
    ["drift.model=piecewise", "drift.change_points=100", "run.horizon=100"],
]


@pytest.mark.parametrize("assignments", REFUSED, ids=" ".join)
def test_what_is_suggested_for_a_refused_config_is_accepted(assignments: list[str]) -> None:
    """The suggestions may lead on to another key, but to no refusal twice."""
    typed, refusal = follow(assignments)
    assert typed
    assert not refusal


@pytest.mark.parametrize("preset", preset_names())
@given(data=st.data())
def test_no_suggestion_is_refused_with_the_same_suggestion(
    preset: str, data: st.DataObject
) -> None:
    """Lengths and times of all sizes against one another."""
    near = st.floats(0.01, 100.0)
    config = load_config(preset=preset)
    keys = ("region_length", "slot_duration_s", "actuation_time_s", "stroke")
    assignments = [
        f"physical.{key}={getattr(config.physical, key) * data.draw(near)!r}"
        for key in keys
        if data.draw(st.booleans())
    ]
    assignments += [f"algorithm.grid_spacing={config.algorithm.grid_spacing * data.draw(near)!r}"]
    typed, refusal = follow(assignments, preset)
    assert len(typed) == len(set(typed)), refusal
    assert not any(suggestions(line) for line in refusal.splitlines()), refusal


@pytest.mark.parametrize("choice", [0, 1])
@pytest.mark.parametrize("sigma_f2", [1.0, 0.7654321])
def test_a_ridge_or_a_window_that_is_suggested_is_accepted(choice: int, sigma_f2: float) -> None:
    refused_config = ["algorithm.ridge=1.23456e-6", "algorithm.window=5000"]
    with pytest.raises(ConfigError, match=r"algorithm\.ridge") as refusal:
        make_posterior(load_config(assignments=refused_config), sigma_f2)
    typed = suggestions(str(refusal.value))[choice]
    make_posterior(load_config(assignments=[*refused_config, *typed]), sigma_f2)


def follow(assignments: list[str], preset: str = "paper") -> tuple[list[str], str]:
    """Type in what is suggested until the config is accepted, or nothing more is suggested.

    What was typed in, and the last refusal.
    """
    typed: list[str] = []
    refusal = refused(assignments, preset)
    for _ in range(8):
        found = [fix for line in refusal.splitlines() for fix in suggestions(line)]
        if not found:
            break
        typed += found[0]
        refusal = refused([*assignments, *typed], preset)
    return typed, refusal


def refused(assignments: list[str], preset: str) -> str:
    try:
        load_config(preset=preset, assignments=assignments)
    except ConfigError as error:
        return str(error)
    return ""


def test_a_missing_package_is_installed_for_the_python_that_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", "/home/ada/my lab/.venv/bin/python")
    command = pip_install("dask[distributed]")
    assert shlex.split(command) == [sys.executable, "-m", "pip", "install", "dask[distributed]"]
