"""The rate reward and its inverse, compared with exact rational powers of two."""

from __future__ import annotations

from decimal import Decimal, getcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from macontrol.config import Config
from macontrol.config.model.reward import reward_of, rewards_of, snr_of, transmission_share

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
    share = transmission_share(0.001, 0.005)
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
