"""Trapezoid motion, compared with a numerical integration of the speed."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from macontrol.config.model.motion import Trapezoid

SPEEDS = st.floats(0.1, 1e3)
ACCELERATIONS = st.floats(0.1, 1e5) | st.just(inf)
DISTANCES = st.floats(1e-3, 1e3)


def integrated(speed: float, acceleration: float, distance: float, elapsed_s: float) -> float:
    """The integral of the speed, which is the least of both ramps and the top speed."""
    total_s = duration(speed, acceleration, distance)
    times = np.linspace(0.0, elapsed_s, 200_001)
    speeds = np.minimum(speed, acceleration * np.minimum(times, total_s - times))
    return float(np.trapezoid(np.maximum(speeds, 0.0), times))


def duration(speed: float, acceleration: float, distance: float) -> float:
    """The duration by bisection of the area under the speed."""
    low, high = 0.0, distance / speed + speed / acceleration + 1.0
    for _ in range(200):
        total = (low + high) / 2
        ramp = min(speed / acceleration, total / 2)
        area = acceleration * ramp * (total - ramp)
        low, high = (low, total) if area > distance else (total, high)
    return (low + high) / 2


@pytest.mark.parametrize("speed", [5.0, 200.0])
@pytest.mark.parametrize("acceleration", [50.0, 2000.0])
@pytest.mark.parametrize("distance", [0.1, 3.0, 80.0])
@pytest.mark.parametrize("share", [0.05, 0.4, 0.5, 0.77, 0.99])
def test_the_covered_distance_is_the_integral_of_the_speed(
    speed: float, acceleration: float, distance: float, share: float
) -> None:
    motion = Trapezoid(speed, acceleration)
    total_s = duration(speed, acceleration, distance)
    assert motion.time_s(distance) == pytest.approx(total_s, rel=1e-9)
    expected = integrated(speed, acceleration, distance, share * total_s)
    assert motion.covered(share * total_s, distance) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("distance", "expected_s"),
    [(0.0, 0.0), (5.0, 0.2), (20.0, 0.4), (30.0, 0.5), (120.0, 1.4)],
)
def test_a_short_motion_is_a_triangle_and_a_long_one_a_trapezoid(
    distance: float, expected_s: float
) -> None:
    """v = 100, a = 500: full speed after 10 of length and 0.2 s."""
    assert Trapezoid(100.0, 500.0).time_s(distance) == pytest.approx(expected_s)


def test_without_acceleration_the_speed_is_constant() -> None:
    motion = Trapezoid(600.0)
    assert motion.time_s(6.0) == 0.01
    assert motion.reach(0.01) == 6.0
    assert motion.covered(0.005, 6.0) == 3.0
    assert motion.speed_after(0.005, 6.0) == 600.0


@given(SPEEDS, ACCELERATIONS, DISTANCES)
def test_reach_is_the_inverse_of_time(speed: float, acceleration: float, distance: float) -> None:
    motion = Trapezoid(speed, acceleration)
    assert motion.reach(motion.time_s(distance)) == pytest.approx(distance, rel=1e-9)
    assert motion.reach(-1.0) == 0.0


@given(SPEEDS, ACCELERATIONS, DISTANCES, st.floats(-0.5, 1.5))
def test_the_speed_is_the_slope_of_the_covered_distance(
    speed: float, acceleration: float, distance: float, share: float
) -> None:
    motion = Trapezoid(speed, acceleration)
    total_s = motion.time_s(distance)
    now, step = share * total_s, 1e-7 * total_s
    slope = (motion.covered(now + step, distance) - motion.covered(now - step, distance)) / (
        2 * step
    )
    assert 0.0 <= motion.covered(now, distance) <= distance
    jumps = acceleration == inf and min(abs(share), abs(share - 1)) < 1e-6
    if not jumps:
        kink = 0.0 if acceleration == inf else acceleration * step
        tolerance = 1e-5 * motion.speed_after(total_s / 2, distance) + kink
        assert motion.speed_after(now, distance) == pytest.approx(slope, abs=tolerance)
