"""The factor of the Gram matrix follows the window; an error in it is noticed and removed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from macontrol.config import Config
from macontrol.controller.policies.estimate import make_posterior
from macontrol.controller.policies.gram import GramPosterior
from support.posterior_runs import History, Walk, coarse, dwell, scatter, slide, wander

TOLERANCE = 1e-8


@pytest.fixture
def small_ridge(paper: Config) -> Config:
    return coarse(paper.replace(algorithm__ridge=1e-5, algorithm__window=60), 0.1)


@pytest.mark.parametrize("walk", [wander, dwell, scatter])
def test_it_is_exact_over_many_windows(small_ridge: Config, walk: Walk) -> None:
    subject, worst = slide(small_ridge, 5000, walk=walk, noise=0.003, check_every=211)
    assert isinstance(subject, GramPosterior)
    assert (subject.refactorings, subject.corrections) == (0, 0)
    assert worst <= TOLERANCE


@pytest.mark.parametrize("window", [1, 2, 17, 400])
def test_every_window_is_exact(small_ridge: Config, window: int) -> None:
    """The window may be longer than the grid."""
    config = small_ridge.replace(algorithm__window=window)
    scale = 2e6 * config.algorithm.ridge / window
    subject, worst = slide(config, 2 * window + 50, sigma_f2=scale, noise=0.003, check_every=60)
    assert isinstance(subject, GramPosterior)
    assert len(subject) == window
    assert worst <= TOLERANCE


@pytest.mark.parametrize("error", [1e-3, -1e-8])
def test_an_error_of_the_factor_is_noticed_and_removed(small_ridge: Config, error: float) -> None:
    """A large one can leave no room for the next sample."""

    def corrupt(subject: GramPosterior) -> None:
        subject._factor[3, 5] += error

    assert _refactorings_after(small_ridge, corrupt) == 1


@pytest.mark.parametrize("error", [1e-3, -1e-8])
def test_an_error_on_the_grid_is_noticed_and_removed(small_ridge: Config, error: float) -> None:
    def corrupt(subject: GramPosterior) -> None:
        subject._whitened[: subject.grid.size, 5] += error

    assert _refactorings_after(small_ridge, corrupt) == 1


def test_an_error_of_the_rewards_is_noticed_and_removed(small_ridge: Config) -> None:
    def corrupt(subject: GramPosterior) -> None:
        subject._whitened[subject.grid.size, 5] += 1e-3

    assert _refactorings_after(small_ridge, corrupt) == 1


def test_an_error_of_the_variance_is_removed(small_ridge: Config) -> None:
    def corrupt(subject: GramPosterior) -> None:
        subject._explained += 1e-3

    subject = _after(small_ridge, corrupt)
    assert (subject.refactorings, subject.corrections) == (0, 1)


def _refactorings_after(config: Config, corrupt: Callable[[GramPosterior], None]) -> int:
    """How often all was computed again."""
    return _after(config, corrupt).refactorings


def _after(config: Config, corrupt: Callable[[GramPosterior], None]) -> GramPosterior:
    """A posterior some slots after an error, which must be exact again."""
    subject, history = make_posterior(config, 1.0), History(config, 1.0)
    assert isinstance(subject, GramPosterior)
    steps, rng = wander(np.random.default_rng(5), config.grid), np.random.default_rng(6)
    for slot in range(100 + config.algorithm.window):
        if slot == 100:
            corrupt(subject)
        position, reward = next(steps), float(0.003 * rng.standard_normal())
        subject.observe(slot, position, reward)
        history.add(slot, position, reward)
    assert history.error(subject) <= TOLERANCE
    return subject


def test_what_was_read_stays_the_same(small_ridge: Config) -> None:
    """The live view reads mean and variance while the slot thread observes."""
    subject = make_posterior(small_ridge, 1.0)
    subject.observe(1, 1.0, 3.0)
    mean, variance = subject.mean, subject.variance
    copies = mean.copy(), variance.copy()
    subject.observe(2, 2.0, -1.0)
    np.testing.assert_array_equal(mean, copies[0])
    np.testing.assert_array_equal(variance, copies[1])
    assert (subject.mean != mean).any()
