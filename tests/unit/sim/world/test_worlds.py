"""Worlds by name: the paper's stays as it is, to the bit, and drifts faster or slower."""

from __future__ import annotations

import numpy as np
import pytest

from macontrol.config import Config, load_config
from macontrol.config.model.errors import UsageError
from macontrol.sim.world.drift import Drift
from macontrol.sim.world.rewardmap import simulate_map, variation_budget
from macontrol.sim.world.worlds import WORLDS, World, faster


@pytest.fixture(scope="module")
def config() -> Config:
    return load_config()


def test_the_paper_s_world_is_the_simulated_channel(config: Config) -> None:
    world = World.named("paper")
    assert world.config_of(config) is config
    made, expected = world.simulate(config, 4, 60), simulate_map(config, 4, 60)
    for name in ("reward", "noise", "survey_position", "survey_reward"):
        np.testing.assert_array_equal(getattr(made, name), getattr(expected, name))


@pytest.mark.parametrize("speed", [0.25, 3.0])
def test_a_faster_drift_keeps_the_stationary_laws(config: Config, speed: float) -> None:
    """The variance of a recursion y ← ρy + N(0, σ²) is σ²/(1 − ρ²), and its lag-one memory ρ."""
    before, after = config.drift, faster(config, speed).drift
    shadow = (1 - before.shadow_reversion, 1 - after.shadow_reversion)
    for rho, rho_after, step, step_after in (
        (
            before.angle_correlation,
            after.angle_correlation,
            before.angle_step_deg,
            after.angle_step_deg,
        ),
        (*shadow, before.shadow_step, after.shadow_step),
    ):
        assert np.log(rho_after) == pytest.approx(speed * np.log(rho))
        assert step_after**2 / (1 - rho_after**2) == pytest.approx(step**2 / (1 - rho**2))
    assert after.gain_correlation == pytest.approx(before.gain_correlation**speed)
    assert faster(config, speed).change_points == round(124 * speed)


def test_whole_steps_are_the_slots_that_a_faster_drift_leaves_out(config: Config) -> None:
    """The law of each slot of a drift of speed 3 is that of each third slot of the paper's."""
    fast = faster(config, 3.0)
    paper = [
        Drift(config, seed).take(3).angle[-1] - Drift(config, seed).start.angle
        for seed in range(400)
    ]
    quick = [
        Drift(fast, seed).take(1).angle[-1] - Drift(fast, seed).start.angle for seed in range(400)
    ]
    assert np.std(quick) == pytest.approx(np.std(paper), rel=0.08)
    still = config.replace(drift__angle_correlation=1.0)
    assert faster(still, 4.0).drift.angle_step_deg == pytest.approx(2 * still.drift.angle_step_deg)


def test_the_map_varies_more_in_a_faster_world(config: Config) -> None:
    rates = []
    for speed in (0.1, 1.0, 4.0):
        world = World.named("paper", speed)
        made = world.simulate(world.config_of(config), 2, 1000)
        rates.append(variation_budget(made.reward) / 1000)
    assert rates[0] < 0.5 * rates[1]
    assert rates[2] > 1.5 * rates[1]


def test_the_origin_names_what_made_the_map(config: Config) -> None:
    made = simulate_map(config, 9, 50)
    origin = World.named("paper").origin(9, made)
    assert (origin["world"], origin["speed"], origin["seed"]) == ("paper", 1.0, 9)
    assert set(origin["versions"]) == {"macontrol", "numpy"}
    assert origin["variation_per_slot"] == pytest.approx(
        np.abs(np.diff(made.reward, axis=0)).max(axis=1).sum() / 50
    )
    assert World.named("ieee-d").origin(9, made)["versions"].keys() > {"quadriga-lib"}


def test_what_is_no_world_is_refused() -> None:
    assert WORLDS == ("paper", "ieee-a", "ieee-b", "ieee-c", "ieee-d", "ieee-e", "ieee-f")
    with pytest.raises(UsageError, match="ieee-g"):
        World.named("ieee-g")
    for speed in (-1.0, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="speed"):
            World.named("ieee-a", speed)
