"""Every value and command that a message suggests is accepted."""

from __future__ import annotations

import shlex
import sys
from fractions import Fraction

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
def test_rounding_stays_on_the_safe_side_and_close(value: float, digits: int) -> None:
    low, high = at_most(value, digits), at_least(value, digits)
    assert float(low) <= value <= float(high)
    # As fractions: the difference of two floats this close would be mostly rounding error.
    step = Fraction(value) / 10 ** (digits - 1)
    assert Fraction(high) - Fraction(low) <= step * (1 + Fraction(1, 10**9))


@given(value=positive)
def test_a_short_number_does_not_change(value: float) -> None:
    short = float(f"{value:.5g}")
    assert float(at_most(short)) == float(at_least(short)) == float(close_to(short)) == short


def test_a_rounding_error_is_not_written() -> None:
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
def test_the_suggestion_for_a_refused_config_is_accepted(assignments: list[str]) -> None:
    """A suggestion may lead to an error about another key, but never to the same error."""
    applied, refusal = follow(assignments)
    assert applied
    assert not refusal


@pytest.mark.parametrize("preset", preset_names())
@given(data=st.data())
def test_no_suggestion_is_refused_with_the_same_suggestion(
    preset: str, data: st.DataObject
) -> None:
    """For lengths and times of very different sizes."""
    near = st.floats(0.01, 100.0)
    config = load_config(preset=preset)
    keys = ("region_length", "slot_duration_s", "actuation_time_s", "stroke")
    assignments = [
        f"physical.{key}={getattr(config.physical, key) * data.draw(near)!r}"
        for key in keys
        if data.draw(st.booleans())
    ]
    assignments += [f"algorithm.grid_spacing={config.algorithm.grid_spacing * data.draw(near)!r}"]
    applied, refusal = follow(assignments, preset)
    assert len(applied) == len(set(applied)), refusal
    assert not any(suggestions(line) for line in refusal.splitlines()), refusal


@pytest.mark.parametrize("choice", [0, 1])
@pytest.mark.parametrize("sigma_f2", [1.0, 0.7654321])
def test_a_suggested_ridge_or_window_is_accepted(choice: int, sigma_f2: float) -> None:
    refused_config = ["algorithm.ridge=1.23456e-6", "algorithm.window=5000"]
    with pytest.raises(ConfigError) as refusal:
        make_posterior(load_config(assignments=refused_config), sigma_f2)
    assert refusal.value.detail.startswith("algorithm.ridge")
    applied = suggestions(refusal.value.fix)[choice]
    make_posterior(load_config(assignments=[*refused_config, *applied]), sigma_f2)


def follow(assignments: list[str], preset: str = "paper") -> tuple[list[str], str]:
    """Apply suggestions until the config is accepted or there is no suggestion.

    Return what was applied, and the last refusal.
    """
    applied: list[str] = []
    refusal = refused(assignments, preset)
    for _ in range(8):
        found = [fix for line in refusal.splitlines() for fix in suggestions(line)]
        if not found:
            break
        applied += found[0]
        refusal = refused([*assignments, *applied], preset)
    return applied, refusal


def refused(assignments: list[str], preset: str) -> str:
    try:
        load_config(preset=preset, assignments=assignments)
    except ConfigError as error:
        return str(error)
    return ""


def test_a_missing_package_is_installed_for_the_running_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", "/home/ada/my lab/.venv/bin/python")
    command = pip_install("dask[distributed]")
    assert shlex.split(command) == [sys.executable, "-m", "pip", "install", "dask[distributed]"]
