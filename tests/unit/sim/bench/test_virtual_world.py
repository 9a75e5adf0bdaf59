"""The virtual bench has the world of the simulated bench: survey, slots, noise."""

from __future__ import annotations

from math import log2
from pathlib import Path

import numpy as np
import pytest

from macontrol.config import load_config
from macontrol.controller.runtime.clock import VirtualClock, WallClock
from macontrol.hal.probes.sdr.power import wideband
from macontrol.hal.registry import STAGES
from macontrol.sim.bench.boards.grbl.board import VirtualGrbl
from macontrol.sim.bench.simulated import SimulatedBench
from macontrol.sim.bench.virtual import NOISE_DBFS, VirtualBench, VirtualWorld
from macontrol.sim.world.channel import Channel
from support.virtual_radio import virtual_radio

SEED = 5
CONFIG = load_config(None, [], preset="lab-2g4-grbl")
WAVELENGTH_MM = CONFIG.physical.wavelength_mm
SLOT_S = CONFIG.physical.slot_duration_s


class Standing(VirtualGrbl):
    """A board whose carriage a test positions."""

    def __init__(self) -> None:
        self.position = 0.0

    def position_at(self, now: float) -> float:
        return self.position * WAVELENGTH_MM


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def world(clock: VirtualClock) -> VirtualWorld:
    world = VirtualWorld(CONFIG, clock, seed=SEED)
    world.board = Standing()
    return world


def reward_shown(world: VirtualWorld, position: float, moment_s: float) -> float:
    """The reward that an exact probe measures at a moment."""
    assert isinstance(world.board, Standing)
    world.board.position = position
    snr = world.power_at(moment_s) / 10 ** (NOISE_DBFS / 10)
    return CONFIG.physical.transmission_share * log2(1 + snr)


def test_a_walked_survey_is_the_simulated_one(world: VirtualWorld, clock: VirtualClock) -> None:
    simulated = SimulatedBench(CONFIG, clock, seed=SEED)
    positions = CONFIG.survey_positions
    expected = simulated.prior_survey([x * WAVELENGTH_MM for x in positions])
    # Off by a step, as a carriage can be.
    walked = [reward_shown(world, x + 1e-9, 7.0 * k) for k, x in enumerate(positions)]
    np.testing.assert_allclose(walked, np.maximum(expected, 0.0), atol=1e-6)


def test_each_slot_has_the_reward_and_the_noise_of_the_channel(world: VirtualWorld) -> None:
    begin = 12.34
    world.drift(begin)
    channel, position = Channel(CONFIG, SEED), 1.1
    shown, expected = [], []
    for slot in range(1, 400):
        channel.advance()
        shown.append(reward_shown(world, position, begin + (slot - 0.5) * SLOT_S))
        expected.append(max(channel.reward(position) + channel.noise, 0.0))
        assert world.slot == slot
    np.testing.assert_allclose(shown, expected, atol=1e-9)


def test_the_channel_is_frozen_until_the_drift_starts_once(world: VirtualWorld) -> None:
    before = reward_shown(world, 0.7, 1e6)
    world.drift(1e6 + 10)
    assert reward_shown(world, 0.7, 1e6 + 9.99) == before
    assert world.slot == 0
    world.drift(2e6)
    reward_shown(world, 0.7, 1e6 + 10 + 2.5 * SLOT_S)
    assert world.slot == 3


@pytest.mark.parametrize("offset_mm", [0.0, 5.0])
@pytest.mark.parametrize(
    ("preset", "travel"),
    [
        *(("lab-2g4-grbl", "auto"), ("lab-2g4-grbl", "302")),
        *(("lab-5g8-zaber", "auto"), ("lab-5g8-zaber", "152")),
    ],
)
def test_the_zero_of_an_inverted_stage_is_that_of_the_driver(
    tmp_path: Path, preset: str, travel: str, offset_mm: float
) -> None:
    link = tmp_path / "stage"
    settings = [f"stage.port={link}", "stage.inverted=true", f"stage.offset_mm={offset_mm}"]
    settings += ["reward.noise_level=0", f"stage.travel_mm={travel}"]
    config, clock = load_config(None, settings, preset=preset), WallClock()
    with VirtualBench(config, clock, seed=SEED, link=link) as bench:
        stage = STAGES[config.stage.driver].make(config.stage, clock, confirm_homing=lambda: False)
        try:
            stage.connect(clock.now() + 30.0)
        finally:
            stage.close()
        from_switch_mm = bench.stage.position_at(clock.now())
        snr = bench.world.power_at(clock.now()) / 10 ** (NOISE_DBFS / 10)
    position_mm = stage.description.travel_mm - (from_switch_mm - offset_mm)
    h = Channel(config, SEED).field(position_mm / config.physical.wavelength_mm)
    assert snr == pytest.approx(config.reward.snr * abs(h) ** 2, rel=2e-3)


def test_the_noise_floor_of_the_samples_is_the_reference_of_the_snr() -> None:
    radio = virtual_radio(lambda _: 0.0, noise_power=10 ** (NOISE_DBFS / 10))
    try:
        floor = wideband(np.concatenate([radio.samples(0.0, 100_000) for _ in range(20)]))
    finally:
        radio.close()
    assert floor.dbfs == pytest.approx(NOISE_DBFS, abs=0.02)


def test_the_reference_receiver_sees_the_same_channel_in_the_middle_of_the_rail(
    world: VirtualWorld,
) -> None:
    world.drift(10.0)
    channel = Channel(CONFIG, SEED)
    channel.advance(7)
    h = channel.field(CONFIG.physical.region_length / 2)
    snr = world.reference_power_at(10.0 + 6.5 * SLOT_S) / 10 ** (NOISE_DBFS / 10)
    assert snr == pytest.approx(CONFIG.reward.snr * abs(h) ** 2, rel=1e-9)
    assert world.slot == 7
