"""track-ucb estimates and decides as docs/track-ucb.md says, solved directly."""

from __future__ import annotations

import os
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from macontrol.config import Config
from macontrol.config.model.grid import Grid
from macontrol.controller.policies import track_ucb
from macontrol.controller.policies.features import kernel_features
from macontrol.controller.policies.kalman_bank import KalmanBank
from macontrol.controller.policies.kernel import kernel_from_config
from macontrol.controller.policies.registry import make_policy
from macontrol.controller.policies.track_ucb.algorithm import TrackUCB
from macontrol.controller.survey.samples import Survey
from macontrol.sim.research.episode import play
from macontrol.sim.world.rewardmap import simulate_map
from support.paper_reference import covariance
from support.track_reference import DenseFilter, Estimates, Sample, regression, score, shares

Array = NDArray[np.float64]

TOLERANCE = 1e-8
BANK: dict[str, Any] = {
    "time_constants": (20.0, 100.0, 3000.0),
    "sigma_f2": 0.8,
    "noise_variance": 0.1,
    "memory": 0.9,
    "doubt": 0.2,
}
SLOTS = int(os.environ.get("MACONTROL_FILTER_SLOTS", "2000"))
"""100000 takes half a minute."""


@pytest.fixture
def grid() -> Grid:
    return Grid(3.0, 61)


def bank_of(config: Config, grid: Grid, history: int = 300, **changes: Any) -> KalmanBank:
    features = kernel_features(kernel_from_config(config.kernel), grid)
    return KalmanBank(features, history=history, **(BANK | changes))


def scattered(seed: int, slots: int, grid: Grid) -> list[Sample]:
    """Rewards in three of four slots, half of them between grid points."""
    rng = np.random.default_rng(seed)
    samples = []
    for slot in range(1, slots + 1):
        if rng.random() < 0.75:
            position = float(rng.uniform(0.0, grid.length))
            if rng.random() < 0.5:
                position = float(grid.points[grid.nearest(position)])
            samples.append(
                (slot, position, float(np.sin(4 * position + 0.03 * slot) + rng.normal(0.0, 0.3)))
            )
    return samples


def state_of(bank: KalmanBank) -> Array:
    return np.concatenate((bank.mean, bank.variance, bank.shares))


def fed(bank: KalmanBank, samples: list[Sample], now: int) -> Array:
    for sample in samples:
        bank.observe(*sample)
    bank.advance(now)
    return state_of(bank)


# -- The estimate -----------------------------------------------------------------------------


@pytest.mark.parametrize("grid", [Grid(3.0, 61), Grid(30.0, 1501)], ids=["short", "long"])
@pytest.mark.parametrize("offset", [0.0, 1.7])
def test_the_estimate_is_a_regression_on_all_rewards_so_far(
    paper: Config, grid: Grid, offset: float
) -> None:
    samples = scattered(1, 240, grid)
    bank = bank_of(paper, grid, offset=offset)
    shown = [(slot, position, reward + offset) for slot, position, reward in samples]
    fed(bank, shown, 250)
    expected = regression(samples, grid.points, 250, covariance=covariance(paper.kernel), **BANK)
    assert expected.share.max() < 0.99
    np.testing.assert_allclose(bank.shares, expected.share, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(bank.means, expected.mean, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(bank.mean, expected.mixed_mean + offset, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(bank.variance, expected.mixed_variance, rtol=0, atol=TOLERANCE)


def test_a_filter_is_a_dense_kalman_filter_after_many_slots(paper: Config, grid: Grid) -> None:
    """With MACONTROL_FILTER_SLOTS=100000 over as many slots."""
    bank = bank_of(paper, grid)
    prior = 0.8 * covariance(paper.kernel)(grid.points[:, None] - grid.points[None, :])
    taus = BANK["time_constants"]
    dense = [DenseFilter(prior, time_constant=tau, noise_variance=0.1) for tau in taus]
    evidence, rng, index = np.zeros(len(taus)), np.random.default_rng(3), 30
    for slot in range(1, SLOTS + 1):
        reward = float(np.sin(0.01 * slot + index / 9) + rng.normal(0.0, 0.3))
        bank.observe(slot, float(grid.points[index]), reward)
        evidence = 0.9 * evidence + [one.step(index, reward) for one in dense]
        if rng.random() < 0.1:
            index = int(np.clip(index + rng.integers(-8, 9), 0, grid.size - 1))
    expected = Estimates(
        np.array([one.mean for one in dense]),
        np.array([np.diag(one.covariance) for one in dense]),
        shares(evidence, 0.2),
    )
    np.testing.assert_allclose(bank.means, expected.mean, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(bank.mean, expected.mixed_mean, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(bank.variance, expected.mixed_variance, rtol=0, atol=TOLERANCE)


def test_before_the_first_reward_nothing_is_known(paper: Config, grid: Grid) -> None:
    bank = bank_of(paper, grid, offset=2.0)
    bank.advance(1000)
    assert (bank.mean == 2.0).all()
    np.testing.assert_allclose(bank.variance, 0.8)
    np.testing.assert_allclose(bank.shares, 1 / 3)


# -- Rewards that are late, withdrawn or impossible -------------------------------------------


@pytest.mark.parametrize("late", [1, 7, 40])
def test_a_late_reward_counts_as_if_it_had_come_in_its_slot(
    paper: Config, grid: Grid, late: int
) -> None:
    samples = scattered(4, 150, grid)
    in_time = fed(bank_of(paper, grid), samples, 150)
    bank, waiting = bank_of(paper, grid), list[Sample]()
    for number, sample in enumerate(samples):
        if number % 5 == 0:
            waiting.append(sample)
        else:
            bank.observe(*sample)
        bank.advance(sample[0])
        if waiting and sample[0] >= waiting[0][0] + late:
            bank.observe(*waiting.pop(0))
    for sample in reversed(waiting):
        bank.observe(*sample)
    bank.advance(150)
    np.testing.assert_allclose(state_of(bank), in_time, rtol=0, atol=1e-12)


def test_rewards_in_any_order_give_the_same_estimate(paper: Config, grid: Grid) -> None:
    samples = scattered(5, 120, grid)
    shuffled = [samples[i] for i in np.random.default_rng(1).permutation(len(samples))]
    one, other = (fed(bank_of(paper, grid), each, 120) for each in (samples, shuffled))
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)


def test_a_withdrawn_reward_never_came(paper: Config, grid: Grid) -> None:
    samples = scattered(6, 150, grid)
    never = fed(bank_of(paper, grid), samples[:60] + samples[82:], 150)
    bank = bank_of(paper, grid)
    fed(bank, samples, 150)
    for slot, _, _ in samples[60:82]:
        bank.withdraw(slot)
        bank.withdraw(slot)
    np.testing.assert_allclose(state_of(bank), never, rtol=0, atol=1e-12)


@pytest.mark.parametrize("number", [62, 63, 64])
def test_a_reward_is_withdrawn_next_to_a_checkpoint(paper: Config, grid: Grid, number: int) -> None:
    samples = scattered(6, 100, grid)
    never = fed(bank_of(paper, grid), samples[:number] + samples[number + 1 :], 100)
    bank = bank_of(paper, grid)
    fed(bank, samples, 100)
    bank.withdraw(samples[number][0])
    np.testing.assert_allclose(state_of(bank), never, rtol=0, atol=1e-12)


def test_of_two_rewards_for_a_slot_the_first_one_counts(paper: Config, grid: Grid) -> None:
    samples = scattered(7, 60, grid)
    bank = bank_of(paper, grid)
    before = fed(bank, samples, 60)
    for slot, position, _ in samples[::7]:
        bank.observe(slot, position, 99.0)
    assert (state_of(bank) == before).all()


def test_a_reward_that_is_older_than_the_history_is_dropped(paper: Config, grid: Grid) -> None:
    samples = scattered(8, 400, grid)
    bank = bank_of(paper, grid, history=50)
    before = fed(bank, samples, 400)
    for slot, _, _ in samples[:200]:
        bank.withdraw(slot)
    for slot, position, _ in samples:
        bank.observe(slot, position, 99.0)
    assert (state_of(bank) == before).all()


def test_every_reward_within_the_history_can_still_come(paper: Config, grid: Grid) -> None:
    samples = [(slot, 1.0, 0.5) for slot in range(1, 401) if slot != 352]
    bank = bank_of(paper, grid, history=50)
    before = fed(bank, samples, 400)
    bank.observe(352, 1.0, 99.0)
    assert (state_of(bank) != before).any()


@pytest.mark.parametrize("reward", [np.nan, np.inf])
def test_a_reward_must_be_a_finite_number(paper: Config, grid: Grid, reward: float) -> None:
    bank = bank_of(paper, grid)
    with pytest.raises(ValueError, match="slot 3"):
        bank.observe(3, 1.0, reward)


# -- The decision -----------------------------------------------------------------------------

QUICK: dict[str, object] = {
    "algorithm__policy": "track-ucb",
    "algorithm__grid_spacing": 0.06,
    "physical__region_length": 3.0,
    "survey__samples": 20,
    "drift__gain_correlation": 0.97,
    "drift__angle_step_deg": 1.0,
}
SETTINGS: dict[str, dict[str, object]] = {
    "default": {},
    "margin 0": {"algorithm__margin": 0.0},
    "margin 1": {"algorithm__margin": 1.0},
    "beta 0": {"algorithm__beta": 0.0},
    "beta 4": {"algorithm__beta": 4.0},
    "ridge 0.02": {"algorithm__ridge": 0.02},
    "travel is dear": {"reward__movement_cost": 30.0},
    "squared exponential": {"kernel__name": "se"},
    "stroke off the grid": {"physical__stroke": 0.08, "physical__actuator_speed_m_per_s": 9.0},
    "stroke of steps": {"physical__stroke": 0.2, "physical__actuator_speed_m_per_s": 9.0},
}


@pytest.mark.parametrize("changes", SETTINGS.values(), ids=SETTINGS.keys())
def test_every_decision_is_that_of_the_reference(paper: Config, changes: dict[str, object]) -> None:
    config = paper.replace(**(QUICK | changes))
    world = simulate_map(config, 5, 60)
    survey = Survey(world.survey_position, world.survey_reward)
    policy = make_policy(config, survey)
    assert isinstance(policy, TrackUCB)
    sigma_f2, algorithm, grid = survey.sigma_f2(config), config.algorithm, config.grid
    offset = policy.posterior.offset
    samples: list[Sample] = [
        (slot, float(x), float(r) - offset)
        for slot, (x, r) in enumerate(
            zip(survey.position, survey.reward, strict=True), 1 - len(survey.position)
        )
    ]
    x = policy.start_position
    target = grid.nearest(x)
    switches = 0
    for slot in range(1, world.slots + 1):
        reward = grid.interpolate(world.reward[slot - 1], x) + float(world.noise[slot - 1])
        if slot % 7:
            policy.observe(slot, x, reward)
            samples.append((slot, x, reward - offset))
        decision = policy.decide(slot, x)
        estimates = regression(
            samples,
            grid.points,
            slot,
            covariance=covariance(config.kernel),
            time_constants=track_ucb.TIME_CONSTANTS,
            sigma_f2=sigma_f2,
            noise_variance=algorithm.ridge,
            memory=track_ucb.MEMORY,
            doubt=track_ucb.DOUBT,
        )
        expected = score(
            estimates,
            grid.points,
            grid.nearest(x),
            time_constants=track_ucb.TIME_CONSTANTS,
            rho_max=config.physical.rho_max,
            beta=algorithm.beta_for("track-ucb"),
            movement_cost=config.reward.movement_cost,
            horizon=track_ucb.HORIZON,
        )
        np.testing.assert_allclose(policy.surface, expected, rtol=0, atol=TOLERANCE)
        if expected.max() - expected[target] > algorithm.margin * sigma_f2**0.5:
            target = int(expected.argmax())
            switches += 1
        assert decision.target == grid.points[target]
        x = decision.position
    if algorithm.margin == 0:
        assert switches > 1


def test_a_reader_of_the_estimate_does_not_disturb_a_decision(paper: Config, grid: Grid) -> None:
    bank = bank_of(paper, grid)
    bank.observe(1, 3.0, 1.0)
    deciding = bank.means
    deciding[:] = 7.0
    assert bank.mean.max() < 7.0  # the live view, in its thread
    assert bank.variance.max() < 7.0
    assert (deciding == 7.0).all()


def test_the_theory_of_any_persistent_target_holds(paper: Config) -> None:
    config = paper.replace(algorithm__policy="track-ucb", algorithm__grid_spacing=0.03)
    verdicts = play(config, simulate_map(config, 2, 400), meter=True).theory
    assert {name for name, verdict in verdicts.items() if verdict.holds} == {
        "reach",
        "region",
        "travel",
        "transit",
        "switches",
        "persistence",
    }


def test_settings_change_within_a_run(paper: Config) -> None:
    config = paper.replace(**QUICK)
    world = simulate_map(config, 5, 40)
    survey = Survey(world.survey_position, world.survey_reward)
    changed, other = (
        make_policy(config, survey),
        make_policy(config.replace(algorithm__beta=0.3, algorithm__margin=0.5), survey),
    )
    assert isinstance(changed, TrackUCB)
    assert isinstance(other, TrackUCB)
    assert changed.settings == {"beta": 1.5, "margin": 0.1}
    changed.adjust("beta", 0.3)
    changed.adjust("margin", 0.5)
    assert changed.settings == other.settings
    assert changed.margin == other.margin
    for policy in (changed, other):
        policy.decide(1, 1.5)
    assert (changed.surface == other.surface).all()


def test_a_warm_restart_with_all_rewards_decides_as_the_run(paper: Config) -> None:
    config = paper.replace(**QUICK)
    world = simulate_map(config, 5, 60)
    survey = Survey(world.survey_position, world.survey_reward)
    whole, again = make_policy(config, survey), make_policy(config, survey)
    taken, x, target = [], whole.start_position, 0.0
    for slot in range(1, 41):
        reward = config.grid.interpolate(world.reward[slot - 1], x)
        whole.observe(slot, x, reward)
        taken.append((slot, x, reward))
        target, x = whole.decide(slot, x)[:2]
    for sample in taken:
        again.observe(*sample)
    again.resume(target)
    for slot in range(41, 61):
        reward = config.grid.interpolate(world.reward[slot - 1], x)
        for policy in (whole, again):
            policy.observe(slot, x, reward)
        decision, other = (policy.decide(slot, x) for policy in (whole, again))
        assert decision[:4] == other[:4]
        x = decision.position


def test_it_finds_the_best_place_of_a_still_world(paper: Config) -> None:
    still = {
        "drift__gain_correlation": 1.0,
        "drift__angle_step_deg": 0.0,
        "drift__shadow_step": 0.0,
    }
    config = paper.replace(algorithm__policy="track-ucb", algorithm__grid_spacing=0.03, **still)
    world = simulate_map(config, 3, 500)
    position = play(config, world).trajectory.position
    best = float(config.grid.points[int(world.reward[0].argmax())])
    assert abs(position[-100:] - best).max() < 0.1
    assert all(abs(a - b) < 1e-9 for a, b in pairwise(position[-100:].tolist()))
