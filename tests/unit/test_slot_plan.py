"""The stroke that follows from speed, acceleration, latency, settling and T_a."""

from __future__ import annotations

import re
from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from macontrol.config import load_config
from macontrol.config.errors import ConfigError
from macontrol.hal import StageDescription
from macontrol.hal.slot_plan import plan_slot
from macontrol.serial_bench import check_plan

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
    plan = plan_slot(ideal, actuation_time_s=0.1, slot_duration_s=0.5, stroke_mm=10.0)
    assert plan.stroke_mm == pytest.approx(10.0)
    assert plan.smallest_actuation_s == pytest.approx(0.1)


def test_latency_settling_and_acceleration_shorten_the_stroke() -> None:
    plan = plan_slot(RAIL, actuation_time_s=0.25, slot_duration_s=1.0, stroke_mm=1.0)
    assert plan.overhead_s == pytest.approx(0.05)
    assert plan.stroke_mm == pytest.approx(500 * 0.2**2 / 4)  # never at full speed
    plan = plan_slot(RAIL, actuation_time_s=0.55, slot_duration_s=1.0, stroke_mm=1.0)
    assert plan.stroke_mm == pytest.approx(100 * (0.5 - 0.2))


def test_the_stroke_is_never_longer_than_the_rail() -> None:
    plan = plan_slot(RAIL, actuation_time_s=60.0, slot_duration_s=100.0, stroke_mm=1.0)
    assert plan.stroke_mm == 96.0


def test_a_plan_that_cannot_be_kept_is_refused_with_one_that_can() -> None:
    with pytest.raises(ConfigError) as refusal:
        plan_slot(RAIL, actuation_time_s=0.05, slot_duration_s=0.2, stroke_mm=5.0)
    text = str(refusal.value)
    actuation, slot = (
        float(re.search(rf"physical\.{key} to at least ([\d.]+)", text)[1])  # type: ignore[index]
        for key in ("actuation_time_s", "slot_duration_s")
    )
    assert actuation == pytest.approx(0.05 + 0.2)
    assert slot - actuation == pytest.approx(0.15)
    plan = plan_slot(RAIL, actuation_time_s=actuation, slot_duration_s=slot, stroke_mm=5.0)
    assert plan.stroke_mm >= 5.0
    with pytest.raises(ConfigError):
        plan_slot(RAIL, actuation_time_s=actuation - 2e-4, slot_duration_s=slot, stroke_mm=5.0)


@given(
    distance=st.floats(0.001, 90.0),
    speed=st.floats(0.1, 1000.0),
    acceleration=st.one_of(st.floats(1.0, 1e5), st.just(inf)),
)
def test_time_and_distance_are_inverse_and_as_in_the_simulator(
    distance: float, speed: float, acceleration: float
) -> None:
    stage = replace(RAIL, speed_mm_per_s=speed, acceleration_mm_per_s2=acceleration)
    time = stage.motion_time_s(distance)
    assert stage.reach_mm(time) == pytest.approx(distance)


@given(
    stroke=st.floats(0.001, 90.0),
    speed=st.floats(0.1, 1000.0),
    acceleration=st.one_of(st.floats(1.0, 1e5), st.just(inf)),
    latency=st.floats(0.0, 1.0),
    settling=st.floats(0.0, 1.0),
)
def test_the_smallest_actuation_time_is_one_that_works(
    stroke: float, speed: float, acceleration: float, latency: float, settling: float
) -> None:
    stage = replace(
        RAIL,
        speed_mm_per_s=speed,
        acceleration_mm_per_s2=acceleration,
        latency_s=latency,
        settling_s=settling,
    )
    generous = plan_slot(stage, actuation_time_s=1e7, slot_duration_s=2e7, stroke_mm=stroke)
    least = generous.smallest_actuation_s
    plan = plan_slot(stage, actuation_time_s=least, slot_duration_s=2 * least, stroke_mm=stroke)
    assert plan.stroke_mm == pytest.approx(stroke)


def test_a_region_out_of_reach_of_the_switch_it_is_counted_towards_is_refused() -> None:
    """The stage stands at the rail's high end after homing, and is moved stroke by stroke."""
    lab = load_config(preset="lab-2g4-grbl", assignments=["stage.inverted=true"])
    quick = replace(RAIL, speed_mm_per_s=200.0, acceleration_mm_per_s2=2000.0, settling_s=0.0)
    with pytest.raises(ConfigError, match=r"stage\.inverted: .*set stage\.travel_mm to 299\.8"):
        check_plan(lab, replace(quick, travel_mm=320.0))
    assert check_plan(lab, replace(quick, travel_mm=299.8)).stroke_mm > 2.5
    check_plan(lab.replace(stage__inverted=False), replace(quick, travel_mm=320.0))


@pytest.mark.parametrize(
    ("step_mm", "key"),
    [(5.0, "physical.stroke"), (2.6, "physical.stroke"), (1.0, "algorithm.grid_spacing")],
)
def test_steps_too_coarse_for_stroke_or_grid_are_refused_with_what_to_set(
    step_mm: float, key: str
) -> None:
    """As by a board whose steps a millimetre are set wrong: the antenna would never move."""
    lab = load_config(preset="lab-2g4-grbl")
    quick = replace(RAIL, travel_mm=320.0, speed_mm_per_s=200.0, acceleration_mm_per_s2=2000.0)
    check_plan(lab, replace(quick, settling_s=0.0, step_mm=0.6))
    with pytest.raises(ConfigError, match=key) as refusal:
        check_plan(lab, replace(quick, settling_s=0.0, step_mm=step_mm))
    if key == "algorithm.grid_spacing":
        told = re.search(r"set it to ([\d.]+)", str(refusal.value))
        assert told is not None
        fitting = lab.replace(algorithm__grid_spacing=float(told[1]))
        check_plan(fitting, replace(quick, settling_s=0.0, step_mm=step_mm))
