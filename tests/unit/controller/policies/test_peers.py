"""The peers of the panel: their estimates against dense computations, and how they behave."""

from __future__ import annotations

from math import log, pi, sqrt

import numpy as np
import pytest
from numpy.typing import NDArray

from macontrol.config import Config
from macontrol.config.model.grid import Grid
from macontrol.controller.policies.et_gp_ucb.posterior import ResettingPosterior
from macontrol.controller.policies.features import kernel_features
from macontrol.controller.policies.kernel import kernel_from_config
from macontrol.controller.policies.policy import HasPosterior
from macontrol.controller.policies.registry import make_policy
from macontrol.controller.policies.tv_gp_ucb.posterior import HISTORY, DriftingPosterior
from macontrol.controller.policies.two_point.algorithm import TwoPointClimber
from macontrol.controller.policies.wgp_ucb.posterior import WeightedPosterior
from macontrol.controller.survey.samples import Survey
from macontrol.sim.research.episode import play
from macontrol.sim.world.rewardmap import simulate_map
from support.paper_reference import covariance, posterior

Array = NDArray[np.float64]
Slots = NDArray[np.int_]
SIGMA_F2, RIDGE = 0.8, 0.1


def samples(count: int, seed: int = 1) -> tuple[Slots, Array, Array]:
    """Slots with gaps, positions on and off the grid, rewards."""
    rng = np.random.default_rng(seed)
    slots = np.cumsum(rng.choice([1, 1, 1, 2, 5], count))
    positions = np.where(
        rng.random(count) < 0.7, rng.integers(0, 601, count) / 100, 6 * rng.random(count)
    )
    return slots, positions, 1.5 + np.cos(2.1 * positions) + 0.2 * rng.standard_normal(count)


def dense_drifting(
    paper: Config, slots: Slots, x: Array, r: Array, *, now: int, epsilon: float
) -> tuple[Array, Array]:
    """μ and σ² of TV-GP-UCB with the full matrix of all samples, for slot `now` (1601.06650)."""
    k, points = covariance(paper.kernel), paper.grid.points
    gram = SIGMA_F2 * k(x[:, None] - x[None, :])
    gram = gram * (1 - epsilon) ** (np.abs(slots[:, None] - slots[None, :]) / 2)
    cross = SIGMA_F2 * k(points[:, None] - x[None, :]) * (1 - epsilon) ** ((now - slots) / 2)
    solved = np.linalg.solve(gram + RIDGE * np.eye(len(x)), np.column_stack([r, cross.T]))
    return cross @ solved[:, 0], SIGMA_F2 - np.einsum("ij,ji->i", cross, solved[:, 1:])


def drifting(paper: Config, epsilon: float, offset: float = 0.0) -> DriftingPosterior:
    features = kernel_features(kernel_from_config(paper.kernel), paper.grid)
    return DriftingPosterior(
        features, sigma_f2=SIGMA_F2, ridge=RIDGE, change_rate=epsilon, offset=offset
    )


class TestDriftingPosterior:
    @pytest.mark.parametrize("epsilon", [0.0, 0.003, 0.2])
    @pytest.mark.parametrize("offset", [0.0, 1.3])
    def test_it_is_that_of_the_full_matrix(
        self, paper: Config, epsilon: float, offset: float
    ) -> None:
        slots, x, r = samples(400)
        subject = drifting(paper, epsilon, offset)
        for slot, position, reward in zip(slots.tolist(), x.tolist(), r.tolist(), strict=True):
            subject.observe(slot, position, reward)
        subject.age_to(int(slots[-1]) + 4)
        mean, variance = dense_drifting(
            paper, slots, x, r - offset, now=int(slots[-1]) + 5, epsilon=epsilon
        )
        np.testing.assert_allclose(subject.mean, mean + offset, rtol=0, atol=1e-9)
        np.testing.assert_allclose(subject.variance, variance, rtol=0, atol=1e-9)

    def test_late_and_withdrawn_rewards_count_as_if_they_came_in_order(self, paper: Config) -> None:
        count, epsilon = 450, 0.01
        slots, x, r = samples(count, seed=3)
        rng = np.random.default_rng(4)
        # Some come up to 150 slots late, and some are withdrawn later on.
        delay = np.where(rng.random(count) < 0.1, rng.integers(1, 150, count), 0)
        withdrawn = rng.random(count) < 0.05
        subject = drifting(paper, epsilon)
        events = [(int(slots[n] + delay[n]), 0, n) for n in range(count)]
        events += [(int(slots[n] + delay[n] + 20), 1, n) for n in range(count) if withdrawn[n]]
        for _, is_withdrawal, n in sorted(events):
            if is_withdrawal:
                subject.withdraw(int(slots[n]))
            else:
                subject.observe(int(slots[n]), float(x[n]), float(r[n]))
        end = max(when for when, _, _ in events)
        subject.age_to(end)
        kept = ~withdrawn
        mean, variance = dense_drifting(
            paper, slots[kept], x[kept], r[kept], now=end + 1, epsilon=epsilon
        )
        np.testing.assert_allclose(subject.mean, mean, rtol=0, atol=1e-9)
        np.testing.assert_allclose(subject.variance, variance, rtol=0, atol=1e-9)

    @pytest.mark.parametrize("epsilon", [0.0, 0.001])
    def test_rounding_errors_of_the_grid_s_variance_do_not_grow(
        self, paper: Config, epsilon: float
    ) -> None:
        subject = drifting(paper, epsilon)
        slots, x, r = samples(10_000)
        for slot, position, reward in zip(slots.tolist(), x.tolist(), r.tolist(), strict=True):
            subject.observe(slot, position, reward)
        on_grid, rank = subject.features.on_grid, subject.features.rank
        covariance = SIGMA_F2 * np.eye(rank) - subject._state.learned.reshape(rank, rank)
        direct = np.einsum("ij,ij->i", on_grid @ covariance, on_grid)
        np.testing.assert_allclose(subject.variance, direct, rtol=0, atol=1e-11)
        assert np.linalg.eigvalsh(covariance).min() > 0

    def test_its_memory_is_bounded_and_what_is_too_late_is_dropped(self, paper: Config) -> None:
        subject = drifting(paper, 0.01)
        for slot in range(1, 4 * HISTORY):
            subject.observe(slot, 3.0, 1.0)
            assert len(subject._samples) <= HISTORY + 32
        before = subject.mean
        subject.observe(0, 3.0, 50.0)
        np.testing.assert_array_equal(subject.mean, before)

    def test_the_first_reward_of_a_slot_counts(self, paper: Config) -> None:
        once, twice = drifting(paper, 0.01), drifting(paper, 0.01)
        for subject in (once, twice):
            subject.observe(1, 3.0, 1.0)
            subject.observe(3, 3.0, 1.0)
        twice.observe(1, 4.0, 9.0)
        once.age_to(3)
        twice.age_to(3)
        np.testing.assert_array_equal(once.mean, twice.mean)


def dense_weighted(
    paper: Config, slots: Slots, x: Array, r: Array, *, now: int, eta: float
) -> tuple[Array, Array]:
    """μ and σ² of WGP-UCB in kernel form, from the full weighted matrix.

    With W the diagonal of the weights, μ = kᵀW(KW + λI)⁻¹r. The variance is that of a linear
    estimate cᵀr with c = (WK + λI)⁻¹Wk: what is left of the prior's variance, plus ϱ·Σ c².
    """
    k, points = covariance(paper.kernel), paper.grid.points
    ridge = RIDGE / SIGMA_F2
    weights = eta ** (now - slots)
    gram = k(x[:, None] - x[None, :])
    cross = k(points[:, None] - x[None, :])
    regularised = np.diag(weights) @ gram + ridge * np.eye(len(x))
    coefficients = np.linalg.solve(regularised, weights[:, None] * cross.T)
    prior = (
        np.ones(len(points))
        - 2 * np.einsum("ij,ji->i", cross, coefficients)
        + np.einsum("ij,ik,kj->j", coefficients, gram, coefficients)
    )
    noise = np.square(coefficients).sum(axis=0)
    return coefficients.T @ r, SIGMA_F2 * prior + RIDGE * noise


def weighted(paper: Config, eta: float) -> WeightedPosterior:
    features = kernel_features(kernel_from_config(paper.kernel), paper.grid)
    return WeightedPosterior(features, sigma_f2=SIGMA_F2, ridge=RIDGE, retention=eta)


class TestWeightedPosterior:
    @pytest.mark.parametrize("eta", [0.9, 0.99, 1.0])
    def test_it_is_that_of_the_full_matrix(self, paper: Config, eta: float) -> None:
        slots, x, r = samples(250)
        subject = weighted(paper, eta)
        order = np.random.default_rng(2).permutation(250)  # weights do not depend on the order
        for n in order.tolist():
            subject.observe(int(slots[n]), float(x[n]), float(r[n]))
        now = int(slots[-1]) + 3
        subject.age_to(now)
        mean, variance = dense_weighted(paper, slots, x, r, now=now, eta=eta)
        np.testing.assert_allclose(subject.mean, mean, rtol=0, atol=1e-9)
        np.testing.assert_allclose(subject.variance, variance, rtol=0, atol=1e-9)

    def test_with_equal_weights_it_is_the_gaussian_process(self, paper: Config) -> None:
        slots, x, r = samples(100)
        subject = weighted(paper, 1.0)
        for slot, position, reward in zip(slots.tolist(), x.tolist(), r.tolist(), strict=True):
            subject.observe(slot, position, reward)
        subject.age_to(int(slots[-1]))
        mean, variance = posterior(
            covariance(paper.kernel), x, r, paper.grid.points, sigma_f2=SIGMA_F2, ridge=RIDGE
        )
        np.testing.assert_allclose(subject.mean, mean, rtol=0, atol=1e-9)
        np.testing.assert_allclose(subject.variance, variance, rtol=0, atol=1e-9)

    def test_a_withdrawn_reward_leaves_no_trace(self, paper: Config) -> None:
        with_it, without = weighted(paper, 0.99), weighted(paper, 0.99)
        for slot in range(1, 60):
            for subject in (with_it, without):
                if subject is with_it or slot != 30:
                    subject.observe(slot, 0.1 * slot, float(slot % 7))
        with_it.withdraw(30)
        with_it.age_to(60)
        without.age_to(60)
        np.testing.assert_allclose(with_it.mean, without.mean, rtol=0, atol=1e-10)
        np.testing.assert_allclose(with_it.variance, without.variance, rtol=0, atol=1e-10)


class TestResettingPosterior:
    NOISE, DELTA = 0.2, 0.1

    def subject(self, paper: Config) -> ResettingPosterior:
        x = np.linspace(0.0, 6.0, 61)
        survey = Survey(x, 2.0 + np.cos(2.0 * (x - 3.0)))
        policy = make_policy(paper.replace(algorithm__policy="et-gp-ucb"), survey)
        assert isinstance(policy, HasPosterior)
        assert isinstance(policy.posterior, ResettingPosterior)
        return policy.posterior

    def test_it_is_the_posterior_of_all_samples_until_one_is_a_surprise(
        self, paper: Config
    ) -> None:
        """The trigger and both posteriors are computed from the formulas, slot by slot."""
        config = paper.replace(
            algorithm__policy="et-gp-ucb",
            drift__model="piecewise",
            drift__change_points=4,
            run__horizon=300,
            run__seed=3,
        )
        world = simulate_map(config, 3, 300)
        survey = Survey(world.survey_position, world.survey_reward)
        run = play(config, world, seed=3)
        policy = make_policy(config, survey)
        assert isinstance(policy, HasPosterior)
        subject = policy.posterior
        assert isinstance(subject, ResettingPosterior)
        scale = {"sigma_f2": survey.sigma_f2(config), "ridge": config.algorithm.ridge}
        k = covariance(config.kernel)
        x, r, reset, resets = survey.position, survey.reward, 0, 0
        for slot, (position, reward) in enumerate(
            zip(run.trajectory.position, run.observed, strict=True), start=1
        ):
            at = np.array([position])
            mean, variance = posterior(k, x, r, at, **scale)
            t = max(slot - reset, 1)
            level = sqrt(2 * log(2 * pi**2 * t**2 / 6 / self.DELTA))
            surprise = abs(reward - mean[0])
            if surprise > level * (sqrt(max(variance[0], 0.0)) + config.noise_std):
                x, r, reset, resets = x[:0], r[:0], slot, resets + 1
            x, r = np.append(x, position), np.append(r, reward)
            subject.observe(slot, float(position), float(reward))
            subject.age_to(slot)
            assert subject.resets == resets
        assert resets >= 1
        mean, variance = posterior(k, x, r, config.grid.points, **scale)
        np.testing.assert_allclose(subject.mean, mean, rtol=0, atol=1e-8)
        np.testing.assert_allclose(subject.variance, variance, rtol=0, atol=1e-8)

    def test_a_surprise_that_is_withdrawn_in_time_resets_nothing(self, paper: Config) -> None:
        subject = self.subject(paper)
        subject.observe(1, 3.0, 30.0)
        subject.withdraw(1)
        subject.age_to(1)
        assert subject.resets == 0
        subject.observe(2, 3.0, 30.0)
        subject.age_to(2)
        assert subject.resets == 1

    def test_rewards_from_before_a_reset_are_dropped(self, paper: Config) -> None:
        subject = self.subject(paper)
        subject.observe(5, 3.0, 30.0)
        subject.age_to(5)
        mean = subject.mean.copy()
        subject.observe(4, 3.0, 2.0)
        subject.age_to(6)
        np.testing.assert_array_equal(subject.mean, mean)

    def test_a_still_reward_resets_rarely(self, paper: Config) -> None:
        """δ_B = 0.1 bounds the probability over all slots; here in ten runs."""
        rng = np.random.default_rng(6)
        resets = 0
        for _ in range(10):
            subject = self.subject(paper)
            for slot in range(1, 120):
                subject.observe(slot, 3.0, 3.0 + self.NOISE * rng.standard_normal())
                subject.age_to(slot)
            resets += subject.resets
        assert resets == 0


class TestTwoPointClimber:
    def climber(self, **changes: float) -> TwoPointClimber:
        settings = {"half_distance": 0.03, "gain": 0.02, "first_point": 2.0} | changes
        return TwoPointClimber(
            Grid(6.0, 601),
            rho_max=0.06,
            rewards_per_point=int(settings.pop("rewards_per_point", 1)),
            start_position=3.0,
            half_distance=settings["half_distance"],
            gain=settings["gain"],
            first_point=settings["first_point"],
        )

    def climb(self, subject: TwoPointClimber, slots: int, peak: float = 2.3) -> list[float]:
        """Positions of a run where the reward falls off on both sides of a peak."""
        x, visited = subject.start_position, []
        for slot in range(1, slots):
            subject.observe(slot, x, 3.0 - (x - peak) ** 2)
            x = subject.decide(slot, x).position
            visited.append(x)
        return visited

    def test_it_goes_to_the_survey_s_best_and_climbs_to_the_peak(self) -> None:
        visited = self.climb(self.climber(), 400)
        assert visited[16] == pytest.approx(2.0)
        assert np.max(np.abs(np.diff([3.0, *visited]))) <= 0.06 + 1e-9
        assert np.mean(visited[-40:]) == pytest.approx(2.3, abs=0.01)
        assert {round(abs(x - np.mean(visited[-40:])), 3) for x in visited[-40:]} == {0.03}

    def test_its_step_is_the_gain_times_the_slope(self) -> None:
        subject = self.climber()
        subject.observe(1, 2.0, 1.0)
        first = subject.decide(1, 2.0)
        assert first.target == pytest.approx(1.94)
        subject.observe(2, 1.94, 1.06)  # a slope of −1: the centre goes from 1.97 to 1.95
        assert subject.decide(2, 1.94).target == pytest.approx(1.92)

    def test_it_averages_and_waits_for_rewards_that_are_missing(self) -> None:
        subject = self.climber(rewards_per_point=3)
        for slot, reward in ((1, 1.0), (2, None), (3, 2.0), (4, 3.0)):
            if reward is not None:
                subject.observe(slot, 2.0, reward)
            subject.decide(slot, 2.0)
        assert subject.decide(5, 2.0).target == pytest.approx(1.94)
        assert subject._first is not None
        assert subject._first == pytest.approx((2.0, 2.0))

    def test_rewards_on_the_way_do_not_count(self) -> None:
        subject = self.climber()
        for slot in range(1, 10):
            subject.observe(slot, 3.0 - 0.06 * slot, 1.0)
            assert subject.decide(slot, 3.0 - 0.06 * slot).target == pytest.approx(2.0)

    @pytest.mark.parametrize("end", [0.0, 6.0])
    def test_both_points_stay_on_the_rail(self, end: float) -> None:
        visited = self.climb(self.climber(first_point=end), 300, peak=end)
        assert min(visited) >= 0.0
        assert max(visited) <= 6.0
        assert np.mean(visited[-40:]) == pytest.approx(abs(end - 0.03), abs=0.005)


@pytest.mark.parametrize("policy", ["tv-gp-ucb", "wgp-ucb", "et-gp-ucb", "two-point"])
def test_a_peer_beats_the_fixed_antenna_in_the_paper_world(paper: Config, policy: str) -> None:
    rewards = []
    for name in (policy, "fixed"):
        config = paper.replace(algorithm__policy=name, run__horizon=1500)
        total = 0.0
        for seed in (10_001, 10_002):
            run = play(config, simulate_map(config, seed, 1500), seed=seed)
            total += run.net_reward(config.reward.movement_cost)
            assert all(verdict.holds is not False for verdict in run.theory.values())
        rewards.append(total)
    assert rewards[0] > rewards[1]
