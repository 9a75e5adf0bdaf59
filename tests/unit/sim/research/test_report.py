"""The table of bars: each line has a value and pass, level, miss or not comparable."""

from __future__ import annotations

from math import inf, nan

import pytest

from macontrol.config import load_config
from macontrol.config.key_help import key_help
from macontrol.sim.research.figures import FIGURES, Setting
from macontrol.sim.research.outcome import Estimate, Outcome
from macontrol.sim.research.report import (
    BARS,
    OPEN_CHOICES,
    Bar,
    Line,
    is_comparable,
    markdown,
    table,
)

LEAD = Bar("f", "q", "lead", "leads", 0.0, inf)


def measured(mean: float, error: float = 0.01) -> Estimate:
    return Estimate(mean, error, 48)


@pytest.mark.parametrize(
    ("mean", "verdict"),
    [(0.9, "pass"), (1.5, "pass"), (1.2, "pass"), (0.89, "MISS"), (1.51, "MISS")],
)
def test_a_range_includes_its_ends(mean: float, verdict: str) -> None:
    assert Bar("f", "q", "quantity", "1", 0.9, 1.5).verdict(measured(mean)) == verdict


def test_an_open_range_has_one_end() -> None:
    bar = Bar("f", "q", "quantity", "1.55", 1.35, inf, ".2f")
    assert bar.range == "≥ 1.35"
    assert bar.verdict(measured(9.0)) == "pass"
    assert bar.verdict(measured(1.34)) == "MISS"


@pytest.mark.parametrize(
    ("mean", "error", "verdict"),
    [
        (0.048, 0.074, "level"),
        (0.02, 0.01, "level"),
        (0.021, 0.01, "pass"),
        (-0.02, 0.01, "level"),
        (-0.021, 0.01, "MISS"),
        (0.0, 0.0, "level"),
        (0.5, nan, "level"),
        (nan, 0.01, "MISS"),
    ],
)
def test_a_lead_within_two_standard_errors_is_level(
    mean: float, error: float, verdict: str
) -> None:
    assert LEAD.verdict(measured(mean, error)) == verdict


def test_a_line_without_a_range_is_only_reported() -> None:
    bar = Bar("f", "q", "quantity", "0.2", shown=".2f")
    for comparable in (True, False):
        line = Line(bar, measured(0.5), "", comparable)
        assert (line.verdict, line.bar.range) == ("–", "reported")


@pytest.mark.parametrize("mean", [-1.0, 0.0, 1.0])
def test_a_line_of_another_size_is_not_comparable(mean: float) -> None:
    assert Line(LEAD, measured(mean), "", comparable=False).verdict == "not comparable"


@pytest.mark.parametrize(
    ("realizations", "slots", "assignments", "comparable"),
    [
        (48, 15300, [], True),
        (47, 15300, [], False),
        (96, 15300, [], False),
        (48, 15299, [], False),
        (48, 15300, ["channel.sub_ray_phases=random"], True),
        (48, 15300, ["algorithm.window=200"], False),
    ],
)
def test_only_the_paper_s_size_and_settings_are_comparable(
    realizations: int, slots: int, assignments: list[str], comparable: bool
) -> None:
    setting = Setting(load_config(assignments=assignments), realizations, slots)
    assert is_comparable(setting) is comparable


def test_open_choices_are_those_that_the_preset_marks() -> None:
    helps = key_help(load_config())
    marked = {key for key, text in helps.items() if text.startswith("open: ")}
    # The reproduction selects se_length; of the shadow's edge only the shape is open.
    assert set(OPEN_CHOICES) == marked - {"kernel.se_length", "channel.shadow_edge"}


def test_not_a_number_misses() -> None:
    assert Bar("f", "q", "quantity", "1", 0.0, 2.0).verdict(measured(nan)) == "MISS"


def test_only_the_figures_that_ran_have_lines() -> None:
    main = Outcome(quantities={"switches": measured(300.0), "regret": measured(0.6)})
    lines = table({"main": main})
    assert [(line.bar.quantity, line.verdict) for line in lines] == [
        ("switches", "pass"),
        ("regret", "MISS"),
    ]
    text = markdown(lines)
    assert "| MoveUCB N_sw | 300 ± 0.0 | 298 | 270 – 345 | pass |" in text
    assert "| MoveUCB regret per slot | 0.600 ± 0.010 |" in text


def test_bars_belong_to_known_figures_and_the_paper_meets_them() -> None:
    assert {bar.figure for bar in BARS} == set(FIGURES)
    papers = {"MoveUCB N_sw": 298, "(ii) global: N_sw": 4778, "Δ = 0.5 σ_f: N_sw": 51}
    for bar in BARS:
        if bar.text in papers:
            assert bar.verdict(measured(papers[bar.text])) == "pass"
