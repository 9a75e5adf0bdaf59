"""The computed carriage of the virtual board."""

import threading
from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from macontrol.hal import StageDescription
from macontrol.sim.world.actuator import Actuator
from macontrol.sim.world.carriage import Carriage

STAGE = StageDescription("carriage", 100.0, 0.0, 100.0, 500.0, 0.0, 0.0)


@given(target=st.floats(-90.0, 90.0), moment=st.floats(-0.1, 3.0), ideal=st.booleans())
def test_a_motion_is_that_of_the_simulated_actuator(
    target: float, moment: float, ideal: bool
) -> None:
    stage = replace(STAGE, acceleration_mm_per_s2=inf) if ideal else STAGE
    carriage, actuator = Carriage(3.0), Actuator(stage, 3.0)
    carriage.move(target, 10.0, stage)
    actuator.command(target, 10.0)
    now = 10.0 + moment
    assert carriage.position_at(now) == pytest.approx(actuator.position_at(now), abs=1e-6)
    assert carriage.still_at <= actuator.still_at + 1e-9


def test_moments_that_have_passed_can_be_asked_about() -> None:
    carriage = Carriage(0.0)
    carriage.move(10.0, 1.0, STAGE)
    carriage.move(0.0, 5.0, STAGE)
    assert carriage.position_at(0.5) == 0.0
    assert carriage.position_at(3.0) == 10.0
    assert carriage.position_at(9.0) == 0.0


def test_braking_takes_the_way_that_the_speed_asks_for() -> None:
    carriage = Carriage(0.0)
    carriage.move(80.0, 0.0, STAGE)
    here = carriage.position_at(0.5)
    assert carriage.speed_at(0.5) == pytest.approx(100.0)
    carriage.brake(0.5, 500.0)
    assert carriage.still_at == pytest.approx(0.7)
    assert carriage.position_at(5.0) == pytest.approx(here + 10.0)


def test_lost_steps_shift_a_motion_under_way() -> None:
    carriage = Carriage(0.0)
    carriage.move(80.0, 0.0, STAGE)
    carriage.shift(-0.5, 0.5)
    assert carriage.position_at(5.0) == pytest.approx(79.5)
    assert carriage.position_at(0.4) == pytest.approx(30.0)


def test_its_memory_is_bounded() -> None:
    carriage = Carriage(0.0)
    for move in range(2000):
        carriage.move(float(move % 2), float(move), STAGE)
    assert len(carriage._pieces) < 100


def test_others_may_ask_while_it_is_moved() -> None:
    carriage = Carriage(0.0)
    done = threading.Event()

    def move() -> None:
        for number in range(3000):
            carriage.move(float(number % 2) * 10, float(number) * 20, STAGE)
        done.set()

    thread = threading.Thread(target=move)
    thread.start()
    while not done.is_set():
        assert -0.1 <= carriage.position_at(1e9) <= 10.1
    thread.join()
