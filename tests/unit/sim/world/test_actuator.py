"""The simulated actuator: latency, trapezoidal motion, steps, settling."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from macontrol.config import Config
from macontrol.hal import StageDescription
from macontrol.sim.world.actuator import Actuator, describe


def stage(
    *,
    speed: float = 600.0,
    acceleration: float = inf,
    latency: float = 0.0,
    settling: float = 0.0,
    step: float = 0.0,
) -> StageDescription:
    return StageDescription("test", 60.0, step, speed, acceleration, latency, settling)


def test_the_papers_actuator_is_ideal(paper: Config) -> None:
    description = describe(paper.physical, "sim")
    assert description.name == "sim"
    assert description.travel_mm == pytest.approx(60, rel=1e-3)
    assert description.speed_mm_per_s == 600
    assert description.acceleration_mm_per_s2 == inf
    assert (description.latency_s, description.settling_s, description.step_mm) == (0, 0, 0)


def test_the_papers_stroke_takes_just_t_a(paper: Config) -> None:
    description = describe(paper.physical, "sim")
    stroke_mm = paper.physical.rho_max * paper.physical.wavelength_mm
    assert description.motion_time_s(stroke_mm) <= paper.physical.actuation_time_s * (1 + 1e-9)
    reach_mm = paper.physical.nominal_reach * paper.physical.wavelength_mm
    assert description.motion_time_s(reach_mm) == pytest.approx(paper.physical.actuation_time_s)


@pytest.mark.parametrize("acceleration", ["ideal", 20.0, 1000.0, 5000.0])
@pytest.mark.parametrize(("latency", "settling"), [(0.0, 0.0), (2e-4, 0.0), (1e-4, 3e-4)])
def test_the_derived_stroke_is_what_is_covered_within_t_a(
    paper: Config, acceleration: str | float, latency: float, settling: float
) -> None:
    """The config's formula and the actuator's motion agree, for short and for long ramps."""
    config = paper.replace(
        physical__acceleration_m_per_s2=acceleration,
        physical__command_latency_s=latency,
        physical__settling_s=settling,
        physical__stroke="auto",
        algorithm__grid_spacing=0.0001,
        survey__samples=10,
    )
    physical = config.physical
    actuator = Actuator(describe(physical, "sim"), 0.0)
    actuator.command(physical.rho_max * physical.wavelength_mm, 0.0)
    assert actuator.still_at == pytest.approx(physical.actuation_time_s, rel=1e-9)
    actuator = Actuator(describe(physical, "sim"), 0.0)
    actuator.command(physical.rho_max * physical.wavelength_mm * 1.01, 0.0)
    assert actuator.still_at > physical.actuation_time_s


@pytest.mark.parametrize("distance", [0.01, 0.3, 5.0, -5.0])
@pytest.mark.parametrize("acceleration", [inf, 1e4, 1e6])
def test_the_motion_obeys_speed_and_acceleration(distance: float, acceleration: float) -> None:
    actuator = Actuator(stage(acceleration=acceleration), 30.0)
    actuator.command(30.0 + distance, 1.0)
    times = np.linspace(1.0, actuator.still_at, 2001)
    positions = np.array([actuator.position_at(float(t)) for t in times])
    assert positions[0] == 30.0
    assert positions[-1] == pytest.approx(30.0 + distance, abs=1e-9)
    steps = np.diff(positions) * np.sign(distance)
    assert (steps >= -1e-12).all()
    speed = steps / np.diff(times)
    assert speed.max() <= 600.0 * (1 + 1e-6)
    if acceleration < inf:
        change = np.abs(np.diff(speed)) / np.diff(times)[1:]
        assert change.max() <= acceleration * (1 + 1e-3)


def test_nothing_moves_before_the_latency_or_after_the_motion() -> None:
    actuator = Actuator(stage(latency=0.01, settling=0.02), 10.0)
    actuator.command(16.0, 5.0)
    assert actuator.position_at(5.0099) == 10.0
    assert actuator.position_at(5.015) == pytest.approx(13.0)
    assert actuator.position_at(5.02001) == 16.0
    assert actuator.still_at == pytest.approx(5.04)


def test_a_command_to_where_it_is_takes_no_settling() -> None:
    actuator = Actuator(stage(latency=0.01, settling=0.02), 10.0)
    actuator.command(10.0, 5.0)
    assert actuator.still_at == pytest.approx(5.01)


def test_positions_are_whole_steps() -> None:
    actuator = Actuator(stage(step=0.0125), 30.001)
    assert actuator.position_at(0.0) == pytest.approx(30.0)
    actuator.command(30.607, 0.0)
    assert actuator.position_at(1.0) == pytest.approx(30.6125)


def test_a_new_command_sets_out_from_where_the_motion_is() -> None:
    actuator = Actuator(stage(), 0.0)
    actuator.command(6.0, 0.0)
    actuator.command(0.0, 0.005)
    assert actuator.position_at(0.005) == pytest.approx(3.0)
    assert actuator.still_at == pytest.approx(0.01)


def test_stop_leaves_it_where_it_is() -> None:
    actuator = Actuator(stage(step=0.5), 0.0)
    actuator.command(6.0, 0.0)
    actuator.stop(0.0051)
    assert actuator.position_at(0.0051) == actuator.position_at(1.0) == 3.0
    assert actuator.still_at <= 0.0051
