"""The simulated carriage."""

import threading
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from macontrol.config.model.motion import Trapezoid
from macontrol.sim.world.carriage import Carriage

MOTION = Trapezoid(100.0, 500.0)


@given(target=st.floats(-90.0, 90.0), elapsed_s=st.floats(-0.1, 3.0), ideal=st.booleans())
def test_a_motion_is_a_trapezoid(target: float, elapsed_s: float, ideal: bool) -> None:
    motion = Trapezoid(100.0, inf) if ideal else MOTION
    carriage = Carriage(3.0)
    carriage.move(target, 10.0, motion)
    covered = motion.covered(elapsed_s, abs(target - 3.0))
    expected = 3.0 + (covered if target > 3.0 else -covered)
    assert carriage.position_at(10.0 + elapsed_s) == pytest.approx(expected, abs=1e-6)
    if target != 3.0:
        assert carriage.still_at == 10.0 + motion.time_s(abs(target - 3.0))


def test_the_history_of_a_carriage_can_be_read() -> None:
    carriage = Carriage(0.0)
    carriage.move(10.0, 1.0, MOTION)
    carriage.move(0.0, 5.0, MOTION)
    assert carriage.position_at(0.5) == 0.0
    assert carriage.position_at(3.0) == 10.0
    assert carriage.position_at(9.0) == 0.0


def test_the_braking_distance_follows_from_the_speed() -> None:
    carriage = Carriage(0.0)
    carriage.move(80.0, 0.0, MOTION)
    here = carriage.position_at(0.5)
    assert carriage.speed_at(0.5) == pytest.approx(100.0)
    carriage.brake(0.5, 500.0)
    assert carriage.speed_at(0.6) == pytest.approx(50.0)
    assert carriage.position_at(0.6) == pytest.approx(here + 7.5)
    assert carriage.still_at == pytest.approx(0.7)
    assert carriage.position_at(5.0) == pytest.approx(here + 10.0)


def test_lost_steps_shift_the_rest_of_a_motion() -> None:
    carriage = Carriage(0.0)
    carriage.move(80.0, 0.0, MOTION)
    carriage.shift(-0.5, 0.5)
    assert carriage.position_at(0.4) == pytest.approx(30.0)
    assert carriage.position_at(0.6) == pytest.approx(49.5)
    assert carriage.speed_at(0.6) == pytest.approx(100.0)
    assert carriage.position_at(5.0) == pytest.approx(79.5)


def test_lost_steps_shift_the_rest_of_a_braking() -> None:
    carriage = Carriage(0.0)
    carriage.move(80.0, 0.0, MOTION)
    carriage.brake(0.5, 500.0)
    carriage.shift(1.0, 0.6)
    assert carriage.position_at(0.6) == pytest.approx(48.5)
    assert carriage.position_at(5.0) == pytest.approx(51.0)


@pytest.mark.parametrize(("history_s", "most"), [(10.0, 100), (0.0, 5)])
def test_the_history_is_bounded(history_s: float, most: int) -> None:
    carriage = Carriage(0.0, history_s=history_s)
    for move in range(2000):
        carriage.move(float(move % 2), float(move), MOTION)
    assert len(carriage._segments) < most


def test_other_threads_can_read_while_it_moves() -> None:
    carriage = Carriage(0.0)
    done = threading.Event()

    def move() -> None:
        for number in range(3000):
            carriage.move(float(number % 2) * 10, float(number) * 20, MOTION)
        done.set()

    thread = threading.Thread(target=move)
    thread.start()
    while not done.is_set():
        assert -0.1 <= carriage.position_at(1e9) <= 10.1
    thread.join()
