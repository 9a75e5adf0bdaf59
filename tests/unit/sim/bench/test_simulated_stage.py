"""The simulated stage: latency, trapezoid motion, steps, settling."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from macontrol.config import Config
from macontrol.controller.runtime.clock import VirtualClock
from macontrol.hal import StageDescription
from macontrol.sim.bench.simulated import SimulatedStage, describe


def stage(
    clock: VirtualClock,
    position_mm: float,
    *,
    speed: float = 600.0,
    acceleration: float = inf,
    latency: float = 0.0,
    settling: float = 0.0,
    step: float = 0.0,
) -> SimulatedStage:
    description = StageDescription("test", 60.0, step, speed, acceleration, latency, settling)
    return SimulatedStage(description, clock, position_mm)


def test_the_papers_actuator_is_ideal(paper: Config) -> None:
    description = describe(paper.physical, "sim")
    assert description.name == "sim"
    assert description.travel_mm == pytest.approx(60, rel=1e-3)
    assert description.speed_mm_per_s == 600
    assert description.acceleration_mm_per_s2 == inf
    assert (description.latency_s, description.settling_s, description.step_mm) == (0, 0, 0)


def test_the_papers_stroke_takes_just_t_a(paper: Config) -> None:
    description = describe(paper.physical, "sim")
    t_a = paper.physical.actuation_time_s
    assert description.motion.time_s(paper.physical.stroke_mm) <= t_a * (1 + 1e-9)
    reach_mm = paper.physical.nominal_reach * paper.physical.wavelength_mm
    assert description.motion.time_s(reach_mm) == pytest.approx(t_a)


@pytest.mark.parametrize("acceleration", ["ideal", 20.0, 1000.0, 5000.0])
@pytest.mark.parametrize(("latency", "settling"), [(0.0, 0.0), (2e-4, 0.0), (1e-4, 3e-4)])
def test_the_derived_stroke_is_covered_within_t_a_and_a_longer_one_is_not(
    paper: Config, acceleration: str | float, latency: float, settling: float
) -> None:
    config = paper.replace(
        physical__acceleration_m_per_s2=acceleration,
        physical__command_latency_s=latency,
        physical__settling_s=settling,
        physical__stroke="auto",
        algorithm__grid_spacing=0.0001,
        survey__samples=10,
    )
    physical = config.physical
    for factor, in_time in ((1.0, True), (1.01, False)):
        simulated = SimulatedStage(describe(physical, "sim"), VirtualClock(), 0.0)
        arrival = simulated.move_to(physical.stroke_mm * factor, inf)
        assert (arrival.time_s <= physical.actuation_time_s * (1 + 1e-9)) == in_time
        if in_time:
            assert arrival.time_s == pytest.approx(physical.actuation_time_s, rel=1e-9)


@pytest.mark.parametrize("distance", [0.01, 0.3, 5.0, -5.0])
@pytest.mark.parametrize("acceleration", [inf, 1e4, 1e6])
def test_the_motion_obeys_speed_and_acceleration(distance: float, acceleration: float) -> None:
    clock = VirtualClock(1.0)
    moving = stage(clock, 30.0, acceleration=acceleration)
    moving.move_to(30.0 + distance, 1.0)
    total_s = moving.description.motion.time_s(abs(distance))
    times = np.linspace(1.0, 1.0 + total_s, 2001)
    positions = []
    for moment in times:
        clock.sleep_until(float(moment))
        positions.append(moving.position_now())
    assert positions[0] == 30.0
    assert positions[-1] == pytest.approx(30.0 + distance, abs=1e-9)
    steps = np.diff(positions) * np.sign(distance)
    assert (steps >= -1e-12).all()
    speed = steps / np.diff(times)
    assert speed.max() <= 600.0 * (1 + 1e-6)
    if acceleration < inf:
        change = np.abs(np.diff(speed)) / np.diff(times)[1:]
        assert change.max() <= acceleration * (1 + 1e-3)


def test_nothing_moves_during_the_latency_or_the_settling() -> None:
    clock = VirtualClock(5.0)
    moving = stage(clock, 10.0, latency=0.01, settling=0.02)
    moving.move_to(16.0, 5.0)
    for moment, expected in ((5.0099, 10.0), (5.015, 13.0), (5.02001, 16.0), (5.0399, 16.0)):
        clock.sleep_until(moment)
        assert moving.position_now() == pytest.approx(expected, abs=1e-9)
        assert not moving.where(inf).arrived
    clock.sleep_until(5.0401)
    assert moving.where(inf).arrived


def test_a_command_to_the_current_position_needs_no_settling() -> None:
    arrival = stage(VirtualClock(5.0), 10.0, latency=0.01, settling=0.02).move_to(10.0, inf)
    assert arrival.arrived
    assert arrival.time_s == pytest.approx(5.01)


def test_positions_are_whole_steps() -> None:
    moving = stage(VirtualClock(), 30.001, step=0.0125)
    assert moving.position_now() == pytest.approx(30.0)
    assert moving.move_to(30.607, inf).position_mm == pytest.approx(30.6125)


def test_a_new_command_starts_from_the_current_position() -> None:
    clock = VirtualClock()
    moving = stage(clock, 0.0)
    moving.move_to(6.0, 0.005)
    assert moving.position_now() == pytest.approx(3.0)
    arrival = moving.move_to(0.0, inf)
    assert arrival.position_mm == 0.0
    assert arrival.time_s == pytest.approx(0.01)


def test_stop_leaves_the_stage_on_the_nearest_step() -> None:
    clock = VirtualClock()
    moving = stage(clock, 0.0, step=0.5)
    moving.move_to(6.0, 0.0051)
    moving.stop()
    assert moving.where(inf).arrived
    assert moving.position_now() == 3.0
    clock.sleep_until(1.0)
    assert moving.position_now() == 3.0
