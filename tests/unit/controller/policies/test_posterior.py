"""The windowed posterior is the direct solve of the paper's equations, after any number of slots.

Errors are measured as the promise is: the mean's against the largest reward of the window, the
variance's against sigma_f^2.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from math import inf, nan, sqrt

import numpy as np
import pytest

from macontrol.config import Config
from macontrol.config.model.errors import ConfigError
from macontrol.controller.policies.estimate import make_posterior
from macontrol.controller.policies.features import kernel_features
from macontrol.controller.policies.gram import GramPosterior
from macontrol.controller.policies.kernel import kernel_from_config
from macontrol.controller.policies.posterior import WindowedPosterior
from support.posterior_runs import (
    History,
    Posterior,
    Walk,
    coarse,
    dwell,
    fringes,
    scatter,
    slide,
    wander,
)

TOLERANCE = 1e-8


def windowed(config: Config, sigma_f2: float = 1.0) -> WindowedPosterior:
    made = make_posterior(config, sigma_f2)
    assert isinstance(made, WindowedPosterior)
    return made


def test_it_stays_exact_over_a_hundred_thousand_slots(paper: Config) -> None:
    subject, worst = slide(paper, 100_000, walk=dwell)
    assert isinstance(subject, WindowedPosterior)
    assert worst <= TOLERANCE


@pytest.mark.parametrize("walk", [wander, dwell, scatter])
@pytest.mark.parametrize("name", ["physics", "se", "const-se", "nonoscillatory"])
def test_every_kernel_is_exact_on_and_off_the_grid(paper: Config, name: str, walk: Walk) -> None:
    config = coarse(paper.replace(kernel__name=name, algorithm__window=100))
    assert slide(config, 1500, walk=walk, check_every=211)[1] <= TOLERANCE


@pytest.mark.parametrize("window", [1, 2, 3, 17, 299, 1000, 3000])
def test_every_window_is_exact(paper: Config, window: int) -> None:
    config = coarse(paper.replace(algorithm__window=window), 0.1)
    slots = max(1000, 2 * window + 100)
    assert (
        slide(config, slots, check_every=1 + slots // (7 if window < 1000 else 1))[1] <= TOLERANCE
    )


@pytest.mark.parametrize(
    ("length", "spacing", "values"),
    [
        (6.0, 6.0, {}),
        (6.0, 3.0, {}),
        (6.0, 0.005, {}),
        (0.5, 0.05, {}),
        (30.0, 0.05, {}),
        (6.0, 0.05, {"kernel__name": "se", "kernel__se_length": 0.1}),
        (6.0, 0.05, {"kernel__fringe_periods": (0.5, 0.55, 0.6), "kernel__fringe_damping": 0.3}),
        (6.0, 0.05, {"kernel__fringe_periods": (40.0,), "kernel__components": 1}),
    ],
)
def test_every_rail_and_grid_is_exact(
    paper: Config, length: float, spacing: float, values: dict[str, object]
) -> None:
    config = paper.replace(
        physical__region_length=length,
        physical__stroke="auto",
        physical__actuator_speed_m_per_s=100.0,
        algorithm__grid_spacing=spacing,
        algorithm__window=50,
        survey__samples=2,
        **values,
    )
    assert slide(config, 400, walk=scatter, check_every=57)[1] <= TOLERANCE


@pytest.mark.parametrize("ridge", [1e-3, 1e-2, 1.0, 100.0, 1e6])
def test_every_ridge_is_exact(paper: Config, ridge: float) -> None:
    config = coarse(paper.replace(algorithm__ridge=ridge, algorithm__window=60))
    assert slide(config, 1000, walk=dwell, check_every=143)[1] <= TOLERANCE


@pytest.mark.parametrize("exponent", range(-3, 7))
def test_every_scale_of_the_reward_is_exact(paper: Config, exponent: int) -> None:
    config = coarse(paper, 0.1)
    noise = sqrt(config.algorithm.ridge)
    slots, scale = 700, 10.0**exponent
    assert slide(config, slots, sigma_f2=scale, noise=noise, check_every=100)[1] <= TOLERANCE


@pytest.mark.parametrize("sigma_f2", [1e7, 1e8])
def test_at_the_largest_scales_it_is_as_exact_as_the_problem_allows(
    paper: Config, sigma_f2: float
) -> None:
    """The Gram matrix has a condition of 1e10 to 1e11 here: a plain solve errs as much."""
    config = coarse(paper, 0.1)
    noise = sqrt(config.algorithm.ridge)
    subject, worst = slide(config, 700, sigma_f2=sigma_f2, noise=noise, check_every=100)
    assert isinstance(subject, GramPosterior)
    assert worst <= 1e-6


@pytest.mark.parametrize("walk", [wander, dwell])
def test_it_is_exact_up_to_where_the_direct_solver_takes_over(paper: Config, walk: Walk) -> None:
    config = coarse(paper, 0.1)
    largest = 1e6 * config.algorithm.ridge / config.algorithm.window
    subject, worst = slide(config, 6000, sigma_f2=0.999 * largest, walk=walk)
    assert isinstance(subject, WindowedPosterior)
    assert worst <= TOLERANCE
    assert isinstance(make_posterior(config, 1.001 * largest), GramPosterior)


def test_a_window_too_long_for_the_direct_solver_is_refused(paper: Config) -> None:
    config = paper.replace(algorithm__window=3001)
    with pytest.raises(ConfigError, match=r"algorithm\.ridge: 0\.1 is too small"):
        make_posterior(config, 1e6)


def test_before_any_sample_it_is_the_prior(paper: Config) -> None:
    for sigma_f2 in (2.5, 2.5e6):
        prior = make_posterior(coarse(paper), sigma_f2)
        assert len(prior) == 0
        np.testing.assert_array_equal(prior.mean, 0.0)
        np.testing.assert_allclose(prior.variance, sigma_f2, rtol=1e-12)


@pytest.mark.parametrize("sigma_f2", [1.0, 6e3], ids=["windowed", "direct"])
class TestLateRewards:
    """A reward belongs to its slot, whenever it arrives."""

    @pytest.fixture
    def config(self, paper: Config) -> Config:
        return coarse(paper.replace(algorithm__window=20), 0.1)

    @staticmethod
    def feed(subject: Posterior, slots: list[int], history: History, *, seed: int = 3) -> None:
        rng, at = np.random.default_rng(seed), subject.grid.points
        for slot in slots:
            position = float(rng.choice(at))
            reward = sqrt(subject.sigma_f2) * fringes(position) + float(rng.standard_normal())
            subject.observe(slot, position, reward)
            history.add(slot, position, reward)

    def test_the_solver_is_the_expected_one(self, config: Config, sigma_f2: float) -> None:
        expected = WindowedPosterior if sigma_f2 == 1.0 else GramPosterior
        assert isinstance(make_posterior(config, sigma_f2), expected)

    def test_the_order_of_arrival_does_not_matter(self, config: Config, sigma_f2: float) -> None:
        rng = np.random.default_rng(1)
        arrival = np.argsort(np.arange(200) + rng.integers(0, 8, 200), kind="stable")
        assert (np.diff(arrival) < 0).any()
        subject, history = make_posterior(config, sigma_f2), History(config, sigma_f2)
        for part in np.array_split(arrival, 23):
            self.feed(subject, part.tolist(), history, seed=int(part[0]))
            assert history.error(subject) <= TOLERANCE

    def test_a_late_reward_pushes_out_the_oldest_not_the_newest(
        self, config: Config, sigma_f2: float
    ) -> None:
        subject, history = make_posterior(config, sigma_f2), History(config, sigma_f2)
        self.feed(subject, [*range(1, 15), *range(16, 22)], history)
        assert len(subject) == 20
        self.feed(subject, [15], history, seed=8)  # slot 1 leaves
        assert len(subject) == 20
        assert history.error(subject) <= TOLERANCE
        self.feed(subject, [22], history, seed=9)  # slot 2 leaves
        assert history.error(subject) <= TOLERANCE

    def test_a_reward_older_than_the_window_is_dropped(
        self, config: Config, sigma_f2: float
    ) -> None:
        subject, history = make_posterior(config, sigma_f2), History(config, sigma_f2)
        self.feed(subject, list(range(1, 41)), history)
        mean, variance = subject.mean.copy(), subject.variance.copy()
        subject.observe(20, 1.0, 1e3)
        subject.observe(-7, 1.0, 1e3)
        np.testing.assert_array_equal(subject.mean, mean)
        np.testing.assert_array_equal(subject.variance, variance)

    @pytest.mark.parametrize("repeated", [21, 22, 33, 40])
    def test_the_first_of_two_rewards_of_one_slot_counts(
        self, config: Config, sigma_f2: float, repeated: int
    ) -> None:
        subject, history = make_posterior(config, sigma_f2), History(config, sigma_f2)
        self.feed(subject, list(range(1, 41)), history)
        subject.observe(repeated, 1.0, 1e3)
        assert len(subject) == 20
        assert history.error(subject) <= TOLERANCE
        self.feed(subject, list(range(41, 50)), history, seed=4)
        assert history.error(subject) <= TOLERANCE

    def test_slots_without_a_reward_leave_older_ones_in(
        self, config: Config, sigma_f2: float
    ) -> None:
        subject, history = make_posterior(config, sigma_f2), History(config, sigma_f2)
        self.feed(subject, [3, 4, 90, 91, *range(1000, 1010)], history)
        assert len(subject) == 14
        assert history.error(subject) <= TOLERANCE


def test_the_window_lists_its_slots(paper: Config) -> None:
    subject = windowed(coarse(paper.replace(algorithm__window=4)))
    for slot in (5, 3, 9, 7, 8, 2, 8, 6):
        subject.observe(slot, 1.0, 2.0)
    assert subject.slots == [6, 7, 8, 9]


@pytest.mark.parametrize("sigma_f2", [1.0, 1e6], ids=["windowed", "direct"])
@pytest.mark.parametrize("reward", [nan, inf, -inf])
def test_a_reward_that_is_not_a_number_is_refused_and_changes_nothing(
    paper: Config, sigma_f2: float, reward: float
) -> None:
    subject = make_posterior(coarse(paper), sigma_f2)
    subject.observe(1, 1.0, 2.0)
    mean, variance = subject.mean.copy(), subject.variance.copy()
    with pytest.raises(ValueError, match="slot 2"):
        subject.observe(2, 1.0, reward)
    np.testing.assert_array_equal(subject.mean, mean)
    np.testing.assert_array_equal(subject.variance, variance)
    assert len(subject) == 1


@pytest.mark.parametrize(
    "values", [{"sigma_f2": 0.0}, {"sigma_f2": nan}, {"ridge": 0.0}, {"window": 0}]
)
def test_a_posterior_without_scale_ridge_or_window_is_refused(
    paper: Config, values: dict[str, float]
) -> None:
    config = coarse(paper)
    features = kernel_features(kernel_from_config(config.kernel), config.grid)
    given = {"sigma_f2": 1.0, "ridge": 0.1, "window": 10} | values
    with pytest.raises(ValueError, match="a posterior needs"):
        WindowedPosterior(
            features,
            sigma_f2=given["sigma_f2"],
            ridge=given["ridge"],
            window=int(given["window"]),
        )


class TestHealing:
    """An error in the sums is removed after a bounded number of slots."""

    WINDOW = 40
    # A pass over all points of the grid, and then twice the window for the sums.
    SLOTS = 601 + 2 * WINDOW

    @pytest.fixture
    def config(self, paper: Config) -> Config:
        return coarse(paper.replace(algorithm__window=self.WINDOW))

    def run(self, config: Config, corrupt: Callable[[WindowedPosterior], None]) -> None:
        rng, grid = np.random.default_rng(5), config.grid
        subject, history = windowed(config), History(config, 1.0)
        steps = wander(rng, grid)

        def go_on(first: int, slots: int) -> None:
            for slot in range(first, first + slots):
                position, reward = next(steps), float(rng.standard_normal() + 2)
                subject.observe(slot, position, reward)
                history.add(slot, position, reward)

        go_on(0, 3 * self.WINDOW + 3)
        assert history.error(subject) <= TOLERANCE
        corrupt(subject)
        go_on(1000, 1)
        seen = history.error(subject) > 1e-5 or subject.refactorings == 1
        assert seen, "the error was meant to be seen, if only by the posterior itself"
        go_on(1001, self.SLOTS)
        assert history.error(subject) <= TOLERANCE

    def test_of_the_variance_at_one_position(self, config: Config) -> None:
        def corrupt(subject: WindowedPosterior) -> None:
            subject.variance[17] += 1e-3

        self.run(config, corrupt)

    def test_of_the_variance_everywhere(self, config: Config) -> None:
        def corrupt(subject: WindowedPosterior) -> None:
            subject.variance *= 1.01

        self.run(config, corrupt)

    def test_of_the_matrix(self, config: Config) -> None:
        def corrupt(subject: WindowedPosterior) -> None:
            subject._sum[0, 0] *= 1.05

        self.run(config, corrupt)

    def test_of_the_moments(self, config: Config) -> None:
        def corrupt(subject: WindowedPosterior) -> None:
            subject._sum[:-1, -1] += 1.0

        self.run(config, corrupt)

    def test_of_the_moments_after_samples_were_withdrawn(self, config: Config) -> None:
        def corrupt(subject: WindowedPosterior) -> None:
            for slot in (subject.slots[0], subject.slots[-1]):
                subject.withdraw(slot)
            subject._sum[:-1, -1] += 1.0

        self.run(config, corrupt)

    def test_of_the_sums_that_will_take_over(self, config: Config) -> None:
        subject_window = self.WINDOW
        rng, grid = np.random.default_rng(6), config.grid
        subject, history = windowed(config), History(config, 1.0)
        steps, worst = wander(rng, grid), 0.0
        for slot in range(3 * subject_window + self.SLOTS + 2 * subject_window):
            if slot == 3 * subject_window + 3:
                subject._fresh_sum[0, 0] += 1.0
                subject._fresh_sum[:-1, -1] += 1.0
            position, reward = next(steps), float(rng.standard_normal() + 2)
            subject.observe(slot, position, reward)
            history.add(slot, position, reward)
            if 3 * subject_window + 3 < slot < 5 * subject_window:
                worst = max(worst, history.error(subject))
        seen = worst > 1e-5 or subject.refactorings == 1
        assert seen, "the error was meant to be seen, if only by the posterior itself"
        assert history.error(subject) <= TOLERANCE

    def test_a_disagreement_is_counted(self, config: Config) -> None:
        subject = windowed(config)
        for slot in range(100):
            subject.observe(slot, 1.0, 2.0)
        assert subject.refactorings == 0
        subject.variance += 1e-3
        for slot in range(100, 110):
            subject.observe(slot, 1.0, 2.0)
        assert subject.refactorings == 1

    def test_a_small_error_is_corrected_point_by_point(self, config: Config) -> None:
        subject, twin = windowed(config), windowed(config)
        subject.variance += 5e-10
        for slot in range(subject.grid.size):
            for each in (subject, twin):
                each.observe(slot, float(subject.grid.points[slot]), 2.0)
        assert subject.refactorings == 0
        assert np.abs(subject.variance - twin.variance).max() <= 1e-13


def test_the_sums_are_renewed_in_an_ordinary_run(paper: Config) -> None:
    """No sum is older than two windows, even without an error."""
    subject = windowed(coarse(paper.replace(algorithm__window=10)))
    for slot in range(100):
        subject.observe(slot, float(subject.grid.points[slot]), 2.0)
        assert {sample.generation for sample in subject._samples} <= {
            subject._generation - 1,
            subject._generation,
        }
    assert subject._generation >= 9
    assert subject.refactorings == 0


def test_memory_does_not_grow_with_the_slots(paper: Config) -> None:
    subject = windowed(coarse(paper.replace(algorithm__window=50), 0.1))
    rng = np.random.default_rng(2)
    positions = rng.choice(subject.grid.points, 5_000).tolist()
    positions += rng.uniform(0.0, 6.0, 5_000).tolist()

    def run(first: int, last: int) -> None:
        for slot in range(first, last):
            subject.observe(slot, positions[slot], 2.0)

    run(0, 1000)
    # Off-grid samples hold a feature of their own: fill the window with such ones first.
    run(9_000, 9_100)
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for slot in range(10_000):
            subject.observe(10_000 + slot, positions[slot], 2.0)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 64 * 1024


def test_a_matrix_that_is_not_positive_definite_is_an_error(paper: Config) -> None:
    subject = windowed(coarse(paper))
    subject._sum = np.asfortranarray(-subject._sum)
    with pytest.raises(ArithmeticError, match="positive definite"):
        subject.observe(1, 3.0, 2.0)


@pytest.mark.parametrize("ridge", [0.1, 1e-6])
def test_after_every_sample_was_withdrawn_the_prior_is_left(paper: Config, ridge: float) -> None:
    """Of both posteriors: the smaller ridge makes it the direct one."""
    config = paper.replace(algorithm__ridge=ridge, algorithm__grid_spacing=0.05)
    subject = make_posterior(config, 2.0)
    assert isinstance(subject, WindowedPosterior if ridge == 0.1 else GramPosterior)
    for slot in range(5):
        subject.observe(slot, 1.0 + slot / 2, 3.0)
    assert subject.mean.max() > 1.0
    for slot in (4, 0, 2, 1, 3, 3, 7):
        subject.withdraw(slot)
    assert len(subject) == 0
    np.testing.assert_allclose(subject.mean, 0.0, atol=1e-9)
    np.testing.assert_allclose(subject.variance, 2.0, rtol=1e-9)
