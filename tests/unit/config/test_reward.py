"""The rate reward and its inverse, compared with exact rational powers of two."""

from __future__ import annotations

from decimal import Decimal, getcontext
from math import isnan, log2, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from macontrol.config import Config
from macontrol.config.model.reward import (
    Power,
    Rate,
    Reward,
    Snr,
    reward_of,
    rewards_of,
    snr_of,
)

SHARES = st.floats(0.05, 1.0)


def exact_reward(share: float, snr: float) -> float:
    """(1 − T_a/T_s)·ln(1 + SNR)/ln 2 with 40 digits."""
    getcontext().prec = 40
    return float(Decimal(share) * (1 + Decimal(snr)).ln() / Decimal(2).ln())


@given(SHARES, st.floats(0.0, 1e9))
def test_the_reward_is_that_of_the_paper(share: float, snr: float) -> None:
    expected = exact_reward(share, snr)
    assert reward_of(share, snr) == pytest.approx(expected, rel=1e-12, abs=1e-15)
    array = rewards_of(share, np.array([snr, 0.0]))
    np.testing.assert_allclose(array, [expected, 0.0], rtol=1e-12, atol=1e-15)


def test_the_largest_reward_of_table_1(paper: Config) -> None:
    share = paper.physical.transmission_share
    assert share == pytest.approx(0.8)
    assert reward_of(share, 10.0 * 3) == pytest.approx(3.963, abs=5e-4)
    assert paper.g_max == reward_of(share, 10.0 * 3)


def test_rewards_can_be_computed_in_place() -> None:
    snr = np.array([0.0, 1.0, 3.0])
    assert rewards_of(0.5, snr, out=snr) is snr
    np.testing.assert_array_equal(snr, [0.0, 0.5, 1.0])
    unchanged = np.array([1.0])
    rewards_of(0.5, unchanged)
    assert unchanged == 1.0


@given(SHARES, st.floats(0.0, 1e6))
def test_the_snr_is_the_inverse_of_the_reward(share: float, snr: float) -> None:
    assert snr_of(share, reward_of(share, snr)) == pytest.approx(snr, rel=1e-9, abs=1e-9)


@given(SHARES, st.floats(0.0, 1e3), st.floats(-1.0, 1.0))
def test_a_reward_beside_a_reference_is_added_to_it(
    share: float, reference: float, added: float
) -> None:
    seen = snr_of(share, added, reference_snr=reference)
    if seen > -1:
        total = reward_of(share, reference) + added
        assert reward_of(share, seen) == pytest.approx(total, abs=1e-9)


def test_a_reward_that_no_link_has_overflows() -> None:
    with pytest.raises(OverflowError):
        snr_of(0.01, 1e6)


def test_a_power_below_the_floor_is_an_snr_of_zero() -> None:
    assert Power(11.0, 1.0).reward(1.0)[0] == pytest.approx(log2(11.0))
    assert Power(0.9e-4, 1e-4, 0.1).reward(0.8)[0] == 0.0
    assert Snr(-0.1, 0.2).reward(0.8)[0] == 0.0


def test_the_snr_behind_a_value() -> None:
    assert Power(11e-4, 1e-4).snr(0.8) == pytest.approx(10.0)
    assert Power(0.5, 1.0).snr(0.8) == -0.5
    assert Snr(10.0).snr(0.8) == 10.0
    assert Reward(0.8 * log2(1 + 10)).snr(0.8) == pytest.approx(10.0)
    assert isnan(Rate(3.0).snr(0.8))


@pytest.mark.fault("samples-not-a-number")
@pytest.mark.parametrize(
    "value", [Power(nan, 1.0, 0.1), Power(1.0, nan, 0.1), Snr(nan), Rate(nan), Rate(1.0, 0.1, 0.0)]
)
def test_the_reward_of_nan_is_nan(value: Power | Snr | Rate) -> None:
    assert isnan(value.reward(0.8)[0])


def test_the_reward_is_the_rate_times_the_transmission_share() -> None:
    assert Power(11e-4, 1e-4).reward(0.8)[0] == pytest.approx(0.8 * log2(1 + 10))
    assert Snr(10.0).reward(0.8)[0] == pytest.approx(0.8 * log2(1 + 10))
    assert Rate(3.0, 0.1).reward(0.8) == pytest.approx((2.4, 0.08))
    assert Rate(30e6, 1e6, 20e6).reward(0.8) == pytest.approx((1.2, 0.04))
    assert Reward(1.5, 0.1).reward(0.8) == (1.5, 0.1)


@pytest.mark.fault("measurement-uncertainty")
def test_the_uncertainty_of_the_reward_follows_from_power_and_noise() -> None:
    rng = np.random.default_rng(2)
    sigma_p, sigma_n = 0.12, 0.05
    powers = 5e-3 * 10 ** (sigma_p * rng.standard_normal(20_000) / 10)
    noises = 1e-4 * 10 ** (sigma_n * rng.standard_normal(20_000) / 10)
    rewards = [Power(p, n).reward(0.7)[0] for p, n in zip(powers, noises, strict=True)]
    _, stated = Power(5e-3, 1e-4, sigma_p, sigma_n).reward(0.7)
    assert np.std(rewards) == pytest.approx(stated, rel=0.03)


@pytest.mark.fault("measurement-uncertainty")
def test_the_uncertainty_of_the_reward_follows_from_that_of_the_snr() -> None:
    rng = np.random.default_rng(3)
    rewards = [Snr(snr).reward(0.7)[0] for snr in 20.0 + 0.5 * rng.standard_normal(20_000)]
    assert np.std(rewards) == pytest.approx(Snr(20.0, 0.5).reward(0.7)[1], rel=0.03)
