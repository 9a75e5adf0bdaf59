"""The worlds of IEEE 802.11: a few antennas give the whole rail, at the SNR that is asked for."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np
import pytest

from macontrol.config import Config, load_config
from macontrol.config.model.errors import UsageError
from macontrol.sim.world import ieee
from macontrol.sim.world.channel import order_count
from macontrol.sim.world.ieee import (
    FAST,
    SLOW,
    chebyshev_points,
    interpolation,
    rail_fields,
    simulate_ieee,
)
from macontrol.sim.world.rewardmap import RewardMap, variation_budget

SLOTS = 40


@pytest.fixture(scope="module")
def config() -> Config:
    pytest.importorskip("quadriga_lib", reason="quadriga-lib is not installed")
    return load_config()


@pytest.mark.parametrize("length", [0.7, 6.0, 12.0])
def test_plane_waves_from_any_angle_are_interpolated_to_rounding(length: float) -> None:
    nodes, weights = chebyshev_points(length, order_count(np.pi * length))
    assert nodes[0] == 0.0
    assert nodes[-1] == length
    positions = np.concatenate((np.linspace(0.0, length, 331), nodes))
    matrix = interpolation(nodes, weights, positions)
    for angle in np.linspace(0.0, np.pi, 25):
        wave = 2j * np.pi * np.cos(angle)
        error = matrix @ np.exp(wave * nodes) - np.exp(wave * positions)
        assert np.abs(error).max() < 1e-13 * (1 + 2 * np.pi * length)


@pytest.mark.parametrize("model", ["B", "D", "F"])
def test_the_map_is_that_of_an_antenna_at_every_position(config: Config, model: str) -> None:
    """The direct way: 601 antennas, the library's sum over taps, the definition of the reward."""
    fields = rail_fields(model, config, 3, SLOTS, FAST, config.grid.points)
    power = np.abs(fields) ** 2
    power *= 10.0 / power[1:].mean()
    direct = 0.8 * np.log2(1.0 + power)
    made = simulate_ieee(model, config, 3, SLOTS, FAST)
    np.testing.assert_allclose(made.reward, direct[1:], rtol=0, atol=1e-10)
    survey = made.survey_reward - np.interp(made.survey_position, config.grid.points, direct[0])
    assert survey.std() == pytest.approx(config.noise_std, rel=0.3)  # its noise, and nothing else
    assert abs(survey.mean()) < 0.4 * config.noise_std


def test_antennas_in_parts_give_the_same_fields(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    positions = np.array([0.0, 0.4, 1.3, 2.0, 5.9])
    whole = rail_fields("C", config, 7, SLOTS, SLOW, positions)
    monkeypatch.setattr(ieee, "_LARGEST_BLOCK", 2 * (SLOTS + 1) * 42)
    parts = rail_fields("C", config, 7, SLOTS, SLOW, positions)
    np.testing.assert_allclose(parts, whole, rtol=1e-12)  # the library sums in another order


def test_the_mean_snr_is_that_of_the_config(config: Config) -> None:
    made = simulate_ieee("D", config.replace(reward__snr_db=20.0), 3, SLOTS, SLOW)
    assert np.mean(2.0 ** (made.reward / 0.8) - 1.0) == pytest.approx(100.0)


def test_a_seed_makes_one_world(config: Config) -> None:
    def world(seed: int, model: str = "B") -> RewardMap:
        return simulate_ieee(model, config, seed, SLOTS, SLOW)

    first = world(5)
    for name in ("reward", "noise", "survey_reward"):
        np.testing.assert_array_equal(getattr(first, name), getattr(world(5), name))
        for other in (world(6), world(2**63 - 1)):
            assert not np.isclose(getattr(first, name), getattr(other, name)).all()
    assert not np.isclose(first.reward, world(5, "C").reward).all()


def test_the_environment_moves_with_the_speed(config: Config) -> None:
    """Six times as fast, the reward changes about six times as much in a slot."""
    slow, fast = (
        np.mean([variation_budget(simulate_ieee("D", config, s, 300, v).reward) for s in range(4)])
        for v in (SLOW, FAST)
    )
    assert 4.0 < fast / slow < 9.0
    still = simulate_ieee("D", config, 1, SLOTS, 0.0).reward
    np.testing.assert_allclose(still, np.broadcast_to(still[0], still.shape), rtol=0, atol=1e-9)


def test_carrier_and_slot_do_not_change_a_world_in_wavelengths(config: Config) -> None:
    """Positions and speeds are in wavelengths and slots."""
    other = config.replace(
        physical__carrier_frequency_hz=2.4e9,
        physical__slot_duration_s=0.25,
        physical__actuation_time_s=0.05,
    )
    a, b = (rail_fields("B", each, 3, 5, FAST, np.array([0.0, 2.0])) for each in (config, other))
    np.testing.assert_allclose(np.abs(a[1:] / a[0]), np.abs(b[1:] / b[0]), rtol=1e-6)


def test_without_the_library_the_error_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if name == "quadriga_lib":
            raise ImportError("No module named 'quadriga_lib'")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(UsageError, match="quadriga-lib") as caught:
        simulate_ieee("A", load_config(), 1, 5, SLOW)
    assert "pip install quadriga-lib" in caught.value.fix
