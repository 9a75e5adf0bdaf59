"""On a long rail an inverse follows the samples and the grid is divided: the result is the same."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

import numpy as np
import pytest

from macontrol.config import Config
from macontrol.config.model.grid import Grid
from macontrol.controller.policies.estimate import make_posterior
from macontrol.controller.policies.expansion import Expansion
from macontrol.controller.policies.features import KernelFeatures
from macontrol.controller.policies.kernel import kernel_from_config
from macontrol.controller.policies.posterior import WindowedPosterior
from macontrol.controller.policies.solver import FactoringSolver, InverseSolver, make_solver
from support.posterior_runs import History, Walk, coarse, dwell, scatter, slide, wander

TOLERANCE = 1e-8


@pytest.fixture
def long_rail(paper: Config) -> Config:
    """A rank of 166, above that of the solver that factors in every slot."""
    rail = paper.replace(physical__region_length=48.0, algorithm__window=120)
    return coarse(rail, 0.1)


def inverse_of(posterior: object) -> InverseSolver:
    assert isinstance(posterior, WindowedPosterior)
    assert isinstance(posterior.solver, InverseSolver)
    return posterior.solver


@pytest.mark.parametrize(
    ("length", "size"),
    [(6.0, 601), (20.0, 101), (36.0, 47), (24.0, 2401), (48.0, 963), (96.0, 9601)],
)
@pytest.mark.parametrize("name", ["physics", "const-se"])
def test_functions_on_the_grid_are_those_of_the_table(
    paper: Config, name: str, length: float, size: int
) -> None:
    kernel = kernel_from_config(paper.replace(kernel__name=name).kernel)
    features = KernelFeatures(kernel, Grid(length, size))
    rng = np.random.default_rng(1)
    coefficients = np.zeros((3, features.rank + 2))
    coefficients[:, :-2] = rng.normal(size=(3, 50)) @ features.between(rng.uniform(0, length, 50))
    found = np.empty((3, size))
    Expansion(features, unused=2).fill(coefficients, found)
    expected = coefficients[:, :-2] @ features.on_grid.T
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("walk", [wander, dwell, scatter])
def test_it_is_exact_on_and_off_the_grid(long_rail: Config, walk: Walk) -> None:
    subject, worst = slide(long_rail, 1500, walk=walk, check_every=211)
    assert inverse_of(subject).inversions == 0
    assert worst <= TOLERANCE


def test_a_finer_grid_in_panels_is_exact(long_rail: Config) -> None:
    fine = long_rail.replace(algorithm__grid_spacing=0.02)
    assert slide(fine, 300, walk=dwell, check_every=97)[1] <= TOLERANCE


def test_it_is_exact_up_to_where_the_direct_solver_takes_over(long_rail: Config) -> None:
    """There the inverse loses digits quickly, and is computed again."""
    largest = 0.999e6 * long_rail.algorithm.ridge / long_rail.algorithm.window
    subject, worst = slide(long_rail, 6000, sigma_f2=largest, walk=wander, check_every=499)
    assert inverse_of(subject).inversions > 0
    assert worst <= TOLERANCE


def test_late_repeated_and_withdrawn_rewards(long_rail: Config) -> None:
    config = long_rail.replace(algorithm__window=40)
    rng = np.random.default_rng(4)
    subject, history = make_posterior(config, 2.0), History(config, 2.0)
    arrival = np.argsort(np.arange(300) + rng.integers(0, 8, 300), kind="stable").tolist()
    for count, slot in enumerate(arrival):
        position, reward = float(rng.uniform(0.0, 48.0)), sqrt(2.0) * float(rng.normal())
        subject.observe(slot, position, reward)
        history.add(slot, position, reward)
        subject.observe(slot, 1.0, 1e3)  # a second reward of the slot is dropped
        if count > 260 and count % 7 == 0:
            subject.withdraw(slot)
            del history.samples[slot]
            # The window is not filled again with samples that it has dropped.
            for old in sorted(history.samples)[: -len(subject)]:
                del history.samples[old]
        if count % 29 == 0:
            assert history.error(subject) <= TOLERANCE
    assert history.error(subject) <= TOLERANCE


def test_an_error_of_the_inverse_is_noticed_and_removed(long_rail: Config) -> None:
    def corrupt(solver: InverseSolver) -> None:
        solver._inverse[3, 7] += 0.1

    assert _errors_after(long_rail, corrupt) == (1, 0)


def test_an_error_of_the_matrix_is_noticed_and_removed(long_rail: Config) -> None:
    def corrupt(solver: InverseSolver) -> None:
        solver._matrix[0, 0] *= 1.05

    inversions, refactorings = _errors_after(long_rail, corrupt)
    assert inversions + refactorings >= 1


def _errors_after(config: Config, corrupt: Callable[[InverseSolver], None]) -> tuple[int, int]:
    """How often inverse and sums were computed again; the result must be exact in the end."""
    config = config.replace(algorithm__window=40)
    subject, history = make_posterior(config, 1.0), History(config, 1.0)
    solver = inverse_of(subject)
    assert isinstance(subject, WindowedPosterior)
    steps = wander(np.random.default_rng(5), config.grid)
    rng = np.random.default_rng(6)
    for slot in range(50 + config.grid_size + 2 * 40):
        if slot == 50:
            corrupt(solver)
        position, reward = next(steps), float(rng.standard_normal())
        subject.observe(slot, position, reward)
        history.add(slot, position, reward)
    assert history.error(subject) <= TOLERANCE
    return solver.inversions, subject.refactorings


def test_a_small_matrix_is_factored_in_every_slot() -> None:
    assert isinstance(make_solver(31), FactoringSolver)
    assert isinstance(make_solver(300), InverseSolver)


def test_a_matrix_that_is_not_positive_definite_is_refused() -> None:
    for order in (3, 300):
        with pytest.raises(ArithmeticError, match="positive definite"):
            make_solver(order).start(np.asfortranarray(-np.eye(order)))
