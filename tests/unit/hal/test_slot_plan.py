"""The stroke that follows from speed, acceleration, latency, settling and T_a."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from macontrol.hal import StageDescription
from macontrol.hal.slot_plan import plan_slot

RAIL = StageDescription(
    name="rail",
    travel_mm=96.0,
    step_mm=0.0125,
    speed_mm_per_s=100.0,
    acceleration_mm_per_s2=500.0,
    latency_s=0.02,
    settling_s=0.03,
)


def test_an_ideal_actuator_covers_speed_times_time() -> None:
    ideal = replace(RAIL, acceleration_mm_per_s2=inf, latency_s=0.0, settling_s=0.0)
    plan = plan_slot(ideal, actuation_time_s=0.1, stroke_mm=10.0)
    assert plan.stroke_mm == pytest.approx(10.0)
    assert plan.smallest_actuation_s == pytest.approx(0.1)


def test_latency_settling_and_acceleration_shorten_the_stroke() -> None:
    plan = plan_slot(RAIL, actuation_time_s=0.25, stroke_mm=1.0)
    assert plan.overhead_s == pytest.approx(0.05)
    assert plan.stroke_mm == pytest.approx(500 * 0.2**2 / 4)  # never at full speed
    plan = plan_slot(RAIL, actuation_time_s=0.55, stroke_mm=1.0)
    assert plan.stroke_mm == pytest.approx(100 * (0.5 - 0.2))


def test_the_stroke_is_never_longer_than_the_rail() -> None:
    plan = plan_slot(RAIL, actuation_time_s=60.0, stroke_mm=1.0)
    assert plan.stroke_mm == 96.0


def test_a_plan_is_feasible_from_the_smallest_actuation_time_on() -> None:
    least = plan_slot(RAIL, actuation_time_s=0.05, stroke_mm=5.0).smallest_actuation_s
    assert least == pytest.approx(0.05 + 0.2)
    assert plan_slot(RAIL, actuation_time_s=least, stroke_mm=5.0).is_kept
    assert not plan_slot(RAIL, actuation_time_s=least - 1e-6, stroke_mm=5.0).is_kept


@given(
    distance=st.floats(0.001, 90.0),
    speed=st.floats(0.1, 1000.0),
    acceleration=st.one_of(st.floats(1.0, 1e5), st.just(inf)),
)
def test_time_and_distance_are_inverse(distance: float, speed: float, acceleration: float) -> None:
    stage = replace(RAIL, speed_mm_per_s=speed, acceleration_mm_per_s2=acceleration)
    time = stage.motion.time_s(distance)
    assert stage.motion.reach(time) == pytest.approx(distance)


@given(
    stroke=st.floats(0.001, 90.0),
    speed=st.floats(0.1, 1000.0),
    acceleration=st.one_of(st.floats(1.0, 1e5), st.just(inf)),
    latency=st.floats(0.0, 1.0),
    settling=st.floats(0.0, 1.0),
)
def test_the_smallest_actuation_time_is_feasible(
    stroke: float, speed: float, acceleration: float, latency: float, settling: float
) -> None:
    stage = replace(
        RAIL,
        speed_mm_per_s=speed,
        acceleration_mm_per_s2=acceleration,
        latency_s=latency,
        settling_s=settling,
    )
    least = plan_slot(stage, actuation_time_s=1e7, stroke_mm=stroke).smallest_actuation_s
    plan = plan_slot(stage, actuation_time_s=least, stroke_mm=stroke)
    assert plan.stroke_mm == pytest.approx(stroke)
