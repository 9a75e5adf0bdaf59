"""The statistics of a trial, compared with SciPy's t-test and with synthetic data."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from macontrol.trial.outcome import BlockResult, Outcome, outcome_of
from macontrol.trial.plan import Plan

ROUNDS = 6


def plan_of(*policies: str, rounds: int = ROUNDS, seed: int = 1) -> Plan:
    return Plan.random(policies, rounds, seed=seed, slots=100, settling=20)


def block(number: int, turn: int, policy: str, reward: float | None) -> BlockResult:
    rewards = 0 if reward is None else 80
    return BlockResult(number, turn, policy, True, 80, rewards, reward, 10.0, 3, None)


def outcome_of_rewards(plan: Plan, rewards: NDArray[np.float64]) -> Outcome:
    """The outcome of block means: a row per round, a column per policy."""
    labels = plan.labels
    return outcome_of(
        plan,
        [block(b.number, b.round, labels[b.policy], rewards[b.round - 1, b.policy].item())
         for b in plan.blocks],
    )  # fmt: skip


def slow_noise(rng: np.random.Generator, count: int, slots: int) -> NDArray[np.float64]:
    """Autocorrelated noise (AR(1), 0.95) in `count` blocks, each independent of the others."""
    shocks = rng.standard_normal((count, slots))
    noise = np.empty_like(shocks)
    noise[:, 0] = shocks[:, 0] / np.sqrt(1 - 0.95**2)
    for slot in range(1, slots):
        noise[:, slot] = 0.95 * noise[:, slot - 1] + shocks[:, slot]
    return noise


def test_the_interval_is_that_of_a_paired_t_test() -> None:
    rng = np.random.default_rng(5)
    rewards = rng.normal(2.0, 0.5, (ROUNDS, 3))
    found = outcome_of_rewards(plan_of("moveucb", "fixed", "gp-ucb"), rewards)
    assert [one.reward for one in found.policies] == pytest.approx(rewards.mean(axis=0).tolist())
    assert [one.policy for one in found.differences] == ["fixed", "gp-ucb"]
    for column, one in enumerate(found.differences, 1):
        expected = stats.ttest_rel(rewards[:, column], rewards[:, 0]).confidence_interval(0.95)
        assert (one.low, one.high) == pytest.approx((expected.low, expected.high))
        assert one.mean == pytest.approx(float((rewards[:, column] - rewards[:, 0]).mean()))


@pytest.mark.parametrize("effect", [0.0, 0.4])
def test_the_interval_has_the_true_difference_in_95_of_100_trials(effect: float) -> None:
    """In blocks of autocorrelated slots, and with a drift that is common to a round."""
    rng, trials, slots = np.random.default_rng(11), 4000, 60
    inside = 0
    plan = plan_of("moveucb", "fixed")
    for _ in range(trials):
        noise = slow_noise(rng, 2 * ROUNDS, slots).mean(axis=1).reshape(ROUNDS, 2)
        drift = np.cumsum(rng.normal(0.0, 3.0, (ROUNDS, 1)), axis=0)
        found = outcome_of_rewards(plan, 5.0 + drift + noise + [0.0, effect]).differences[0]
        assert found.low is not None
        assert found.high is not None
        inside += found.low <= effect <= found.high
    # Three standard deviations of a binomial share with p = 0.95.
    assert abs(inside / trials - 0.95) < 3 * np.sqrt(0.95 * 0.05 / trials)


def test_a_verdict_follows_the_interval() -> None:
    steps = np.array([[1.0, 2.0], [2.0, 3.01], [3.0, 3.99]])
    plan = plan_of("a", "b", rounds=3)
    assert outcome_of_rewards(plan, steps).differences[0].verdict == "better"
    assert outcome_of_rewards(plan, steps[:, ::-1]).differences[0].verdict == "worse"
    level = np.array([[1.0, 2.0], [2.0, 1.0], [3.0, 3.1]])
    assert outcome_of_rewards(plan, level).differences[0].verdict == "level"


def test_only_complete_rounds_count() -> None:
    plan = plan_of("a", "b", rounds=4)
    blocks = [
        block(1, 1, "a", 1.0), block(2, 1, "b", 2.0),
        block(3, 2, "b", 9.0), block(4, 2, "a", None),  # without a reward
        block(5, 3, "a", 2.0), block(6, 3, "b", 4.0),
        block(7, 4, "a", 7.0), replace(block(8, 4, "b", 9.0), is_complete=False),
    ]  # fmt: skip
    found = outcome_of(plan, blocks)
    assert found.rounds == (1, 3)
    assert [one.reward for one in found.policies] == [1.5, 3.0]
    assert found.differences[0].mean == 1.5
    assert len(found.blocks) == 8


def test_one_round_has_no_interval_and_none_has_no_difference() -> None:
    plan = plan_of("a", "b")
    one = outcome_of(plan, [block(1, 1, "a", 1.0), block(2, 1, "b", 2.0)])
    assert (one.differences[0].mean, one.differences[0].half_width) == (1.0, None)
    assert one.differences[0].verdict == "unknown"
    none = outcome_of(plan, [block(1, 1, "a", 1.0)])
    assert none.differences == ()
    assert none.policies[0].reward is None


def test_every_round_has_each_policy_once_in_an_order_of_its_own() -> None:
    plan = plan_of("a", "b", "c", rounds=300)
    assert all(sorted(turn) == [0, 1, 2] for turn in plan.order)
    first = np.bincount([turn[0] for turn in plan.order], minlength=3)
    assert first.min() > 70  # 100 are expected, with a standard deviation of 8
    assert len({pair for pair in pairwise(plan.order)}) == 36  # no order depends on the last one
    assert plan.order == plan_of("a", "b", "c", rounds=300).order
    assert plan.order != plan_of("a", "b", "c", rounds=300, seed=2).order
    assert [b.number for b in plan.blocks] == list(range(1, 901))


def test_a_policy_that_is_given_again_has_a_name_of_its_own() -> None:
    assert plan_of("fixed", "moveucb", "fixed").labels == ("fixed", "moveucb", "fixed#2")
