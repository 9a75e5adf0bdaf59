"""The table of bars: every line says what it measured, and pass or miss."""

from __future__ import annotations

from math import inf, nan

import pytest

from macontrol.sim.campaign.bars import BARS, Bar, Line, markdown, table
from macontrol.sim.campaign.figures import FIGURES
from macontrol.sim.campaign.figures.outcome import Outcome
from macontrol.sim.campaign.statistics import Estimate


def measured(mean: float) -> Estimate:
    return Estimate(mean, 0.01, 48)


@pytest.mark.parametrize(
    ("mean", "met"), [(0.9, True), (1.5, True), (1.2, True), (0.89, False), (1.51, False)]
)
def test_a_range_includes_its_ends(mean: float, met: bool) -> None:
    assert Bar("f", "q", "quantity", "1", 0.9, 1.5).met_by(measured(mean)) is met


def test_an_open_range_has_one_end() -> None:
    bar = Bar("f", "q", "quantity", "1.55", 1.35, inf, ".2f")
    assert bar.range == "≥ 1.35"
    assert bar.met_by(measured(9.0)) is True
    assert bar.met_by(measured(1.34)) is False


def test_a_line_without_a_range_is_only_reported() -> None:
    line = Line(Bar("f", "q", "quantity", "0.2", shown=".2f"), measured(0.5), "")
    assert (line.met, line.verdict, line.bar.range) == (None, "–", "reported")


def test_not_a_number_misses() -> None:
    assert Bar("f", "q", "quantity", "1", 0.0, 2.0).met_by(measured(nan)) is False


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


def test_bars_are_of_known_figures_and_the_paper_passes_its_own() -> None:
    assert {bar.figure for bar in BARS} == set(FIGURES)
    papers = {"MoveUCB N_sw": 298, "(ii) global: N_sw": 4778, "Δ = 0.5 σ_f: N_sw": 51}
    for bar in BARS:
        if bar.text in papers:
            assert bar.met_by(measured(papers[bar.text])) is True
