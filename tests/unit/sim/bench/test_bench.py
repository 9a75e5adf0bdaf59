"""The simulated bench behind the protocols of stage and probe."""

from __future__ import annotations

import numpy as np
import pytest

from macontrol.config import Config
from macontrol.config.model.reward import Reward
from macontrol.controller.runtime.clock import VirtualClock
from macontrol.sim.bench.simulated import SimulatedBench
from macontrol.sim.world.channel import Channel, survey_rewards
from macontrol.sim.world.rewardmap import simulate_map


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(100.0)


def test_a_move_waits_for_the_arrival(paper: Config, clock: VirtualClock) -> None:
    stage = SimulatedBench(paper, clock, seed=1).stage
    at = stage.where(0.0).position_mm
    assert at == pytest.approx(30, rel=1e-3)
    arrival = stage.move_to(at + 0.6, 100.0 + 0.0011)
    assert arrival.arrived
    assert arrival.position_mm == at + 0.6
    assert arrival.time_s == pytest.approx(100.001)
    assert clock.now() == pytest.approx(100.001)


def test_a_move_continues_after_the_deadline(paper: Config, clock: VirtualClock) -> None:
    stage = SimulatedBench(paper, clock, seed=1).stage
    at = stage.where(0.0).position_mm
    arrival = stage.move_to(at + 6.0, 100.005)
    assert not arrival.arrived
    assert arrival.position_mm == pytest.approx(at + 3.0)
    clock.sleep_until(100.0075)
    assert stage.where(0.0).position_mm == pytest.approx(at + 4.5)
    clock.sleep_until(101.0)
    arrival = stage.where(0.0)
    assert arrival.arrived
    assert arrival.position_mm == at + 6.0


@pytest.mark.parametrize("end", ["stop", "close"])
def test_stop_and_close_end_the_motion(paper: Config, clock: VirtualClock, end: str) -> None:
    stage = SimulatedBench(paper, clock, seed=1).stage
    at = stage.where(0.0).position_mm
    stage.move_to(at + 6.0, 100.005)
    getattr(stage, end)()
    clock.sleep_until(200.0)
    arrival = stage.where(0.0)
    assert arrival.arrived
    assert arrival.position_mm == pytest.approx(at + 3.0)


def test_the_survey_is_the_papers_snapshot(paper: Config, clock: VirtualClock) -> None:
    positions = np.array(paper.survey_positions)
    wavelength = paper.physical.wavelength_mm
    bench = SimulatedBench(paper, clock, seed=3)
    rewards = bench.prior_survey([float(x) * wavelength for x in positions])
    np.testing.assert_allclose(rewards, survey_rewards(paper, 3))
    world = simulate_map(paper, seed=3, slots=1)
    np.testing.assert_allclose(rewards, world.survey_reward)


def test_a_resumed_run_has_the_same_survey(paper: Config, clock: VirtualClock) -> None:
    positions = [0.0, 10.0, 20.0]
    early = SimulatedBench(paper, clock, seed=3).prior_survey(positions)
    late = SimulatedBench(paper, clock, seed=3, slot=500, position_mm=12.0).prior_survey(positions)
    assert list(early) == list(late)


def test_the_probe_measures_the_slot_at_the_position_of_the_stage(
    paper: Config, clock: VirtualClock
) -> None:
    bench = SimulatedBench(paper, clock, seed=3)
    world = simulate_map(paper, seed=3, slots=40)
    middle = paper.grid_size // 2
    for slot in (1, 2, 3, 17, 40):  # the world drifts in missed slots too
        now = clock.now()
        bench.probe.request(slot, now, now + 0.003)
        (measurement,) = bench.probe.collect(now + 0.01)
        assert clock.now() == pytest.approx(now + 0.003)
        assert (measurement.slot, measurement.valid) == (slot, True)
        expected = world.reward[slot - 1, middle] + world.noise[slot - 1]
        assert isinstance(measurement.value, Reward)
        assert measurement.value.value == pytest.approx(expected)
        assert measurement.value.sigma == paper.noise_std
    fixed = np.mean([world.reward[slot - 1, middle] for slot in (1, 2, 3, 17, 40)])
    assert bench.fixed_antenna_reward == pytest.approx(fixed)
    slot, latest = bench.probe.latest
    assert slot == 40
    assert latest == pytest.approx(world.reward[39, middle])


def test_without_a_request_there_is_no_measurement(paper: Config, clock: VirtualClock) -> None:
    bench = SimulatedBench(paper, clock, seed=3)
    assert not bench.probe.collect(clock.now() + 1.0)
    assert bench.fixed_antenna_reward == 0.0


def test_a_resumed_world_continues_where_it_ended(paper: Config, clock: VirtualClock) -> None:
    bench = SimulatedBench(paper, clock, seed=3, slot=120, position_mm=12.5, name="other")
    assert bench.stage.where(0.0).position_mm == 12.5
    assert bench.stage.description.name == "other"
    bench.probe.request(121, 0.0, 0.0)
    (measurement,) = bench.probe.collect(0.0)
    channel = Channel(paper, 3)
    channel.advance(121)
    expected = channel.reward(12.5 / paper.physical.wavelength_mm) + channel.noise
    assert isinstance(measurement.value, Reward)
    assert measurement.value.value == pytest.approx(expected)
