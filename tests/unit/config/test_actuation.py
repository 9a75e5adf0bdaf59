"""What a move costs of its slot, compared with a direct computation."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from macontrol.config import Config, load_config

AS_NEEDED = "physical.actuation=as-needed"
LAB = load_config(preset="lab-2g4-grbl", assignments=[AS_NEEDED])
LAB_FIXED = load_config(preset="lab-2g4-grbl", assignments=["physical.actuation=fixed"])


def lab_time_s(distance: float) -> float:
    """Latency 25 ms, settling 10 ms; at 2 m/s² and 0.2 m/s, 20 mm are needed for full speed."""
    if distance == 0:
        return 0.0
    metres = distance * 299_792_458.0 / 2.4e9
    assert metres < 0.02
    return 0.035 + 2 * sqrt(metres / 2.0)


@given(st.floats(1e-6, 1) | st.just(0.0))
def test_the_time_of_a_move_as_needed(part: float) -> None:
    plan, stroke = LAB.physical.actuation_plan, LAB.physical.rho_max
    distance = part * stroke
    expected_s = lab_time_s(distance) if distance > 1e-9 else 0.0
    assert plan.time_s(distance) == pytest.approx(expected_s)
    assert plan.time_s(distance) <= LAB.physical.actuation_time_s
    assert plan.share(plan.time_s(distance)) == pytest.approx(1 - expected_s / 0.25)
    assert plan.weight(distance) == pytest.approx(1 - expected_s / 0.25)


@given(st.floats(0, 0.02))
def test_fixed_actuation_takes_all_of_t_a_and_weighs_nothing(distance: float) -> None:
    plan = LAB_FIXED.physical.actuation_plan
    assert plan.time_s(distance) == plan.spent_s(distance, 0.01) == 0.11
    assert plan.share(plan.time_s(distance)) == LAB_FIXED.physical.transmission_share == 1 - 0.44
    assert plan.weight(distance) == 1.0
    assert plan.weights(np.array([0.0, distance])).tolist() == [1.0, 1.0]
    assert plan.price(3.0, LAB_FIXED.physical.rho_max) == 0.0


def test_a_late_move_takes_longer_but_at_most_t_a() -> None:
    plan = LAB.physical.actuation_plan
    planned_s = plan.time_s(0.01)
    assert plan.spent_s(0.01, -0.003) == planned_s
    assert plan.spent_s(0.01, 0.003) == pytest.approx(planned_s + 0.003)
    assert plan.spent_s(0.01, 1.0) == 0.11


def test_weights_are_those_of_each_distance() -> None:
    plan = LAB.physical.actuation_plan
    distances = [0.0, 1e-12, 0.005, 0.02]
    assert plan.weights(np.array(distances)).tolist() == [plan.weight(d) for d in distances]
    assert plan.weight(1e-12) == 1.0


def test_recorded_shares_are_relative_to_a_holding_antenna() -> None:
    shares = np.array([0.56, 0.28, np.nan])
    assert LAB_FIXED.physical.actuation_plan.recorded(shares) == pytest.approx([1.0, 0.5, 1.0])
    assert LAB.physical.actuation_plan.recorded(shares) == pytest.approx([0.56, 0.28, 1.0])


def test_the_price_of_a_way_is_the_rate_lost_per_stroke() -> None:
    plan, stroke = LAB.physical.actuation_plan, LAB.physical.rho_max
    strokes_per_wavelength = 1 / stroke
    lost = lab_time_s(stroke) / 0.25 * 3.0
    assert plan.price(3.0, stroke) == pytest.approx(strokes_per_wavelength * lost)
    assert plan.price(-1.0, stroke) == 0.0


def test_as_needed_the_largest_reward_is_that_of_a_whole_slot(paper: Config) -> None:
    needed = paper.replace(physical__actuation="as-needed")
    assert needed.physical.transmission_share == 1.0
    assert needed.g_max == pytest.approx(paper.g_max / 0.8)
    assert needed.noise_std == pytest.approx(paper.noise_std / 0.8)
    assert needed.slot_timing == paper.slot_timing


def test_the_measurement_begins_a_guard_interval_after_the_actuation() -> None:
    timing = LAB.slot_timing
    assert timing.measure_begin_s(0.0) == pytest.approx(0.005)
    assert timing.measure_begin_s(0.11) == timing.actuation_end_s
