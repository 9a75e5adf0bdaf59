"""From config and survey to a policy: every parameter arrives where it belongs."""

from __future__ import annotations

import numpy as np
import pytest

from macontrol.config import Config
from macontrol.config.model.errors import ConfigError
from macontrol.controller.policies.epsilon_greedy.algorithm import EpsilonGreedy
from macontrol.controller.policies.estimate import make_posterior
from macontrol.controller.policies.fixed import Fixed
from macontrol.controller.policies.moveucb.algorithm import MoveUCB
from macontrol.controller.policies.policy import HasPosterior
from macontrol.controller.policies.posterior import WindowedPosterior
from macontrol.controller.policies.registry import make_policy
from macontrol.controller.policies.sweep_and_hold.algorithm import SweepAndHold
from macontrol.controller.survey.samples import Survey
from macontrol.sim.research.episode import play
from macontrol.sim.world.rewardmap import simulate_map
from support.paper_reference import covariance, posterior, survey_scale


@pytest.fixture(scope="module")
def survey() -> Survey:
    x = np.linspace(0.0, 6.0, 100).round(2)
    rng = np.random.default_rng(4)
    return Survey(x, 2.0 + np.cos(3.0 * x) + 0.2 * rng.standard_normal(100))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("moveucb", MoveUCB),
        ("gp-ucb", MoveUCB),
        ("sweep-and-hold", SweepAndHold),
        ("epsilon-greedy", EpsilonGreedy),
        ("fixed", Fixed),
    ],
)
def test_every_name_makes_its_policy(
    paper: Config, survey: Survey, name: str, kind: type[object]
) -> None:
    assert isinstance(make_policy(paper.replace(algorithm__policy=name), survey), kind)


def test_the_scale_is_the_variance_of_the_survey_net_of_noise(
    paper: Config, survey: Survey
) -> None:
    assert paper.noise_std == pytest.approx(0.05 * 0.8 * np.log2(31))
    expected = float(np.sum((survey.reward - survey.reward.mean()) ** 2)) / 99
    expected -= paper.noise_std**2
    assert survey.sigma_f2(paper) == pytest.approx(expected, rel=1e-12)
    assert survey_scale(paper, survey.reward) == pytest.approx(expected, rel=1e-12)


def test_a_flat_survey_is_floored(paper: Config) -> None:
    flat = Survey(np.linspace(0.0, 6.0, 100), np.full(100, 2.0))
    assert flat.sigma_f2(paper) == 1e-3
    assert flat.sigma_f2(paper.replace(survey__variance_floor=0.5)) == 0.5


def test_the_best_of_equal_survey_positions_is_the_lowest() -> None:
    assert Survey(np.array([1.0, 2.0, 3.0]), np.array([0.0, 5.0, 5.0])).best_position == 2.0


@pytest.mark.parametrize("window", [30, 300])
def test_the_survey_fills_the_window_before_slot_1(
    paper: Config, survey: Survey, window: int
) -> None:
    """Left to right, so that a window shorter than the survey keeps its right end."""
    config = paper.replace(algorithm__window=window)
    policy = make_policy(config, survey)
    assert isinstance(policy, MoveUCB)
    belief = policy.posterior
    assert isinstance(belief, WindowedPosterior)
    assert belief.slots == list(range(1 - min(window, 100), 1))
    mean, variance = posterior(
        covariance(config.kernel),
        survey.position[-window:],
        survey.reward[-window:],
        belief.grid.points,
        sigma_f2=survey.sigma_f2(config),
        ridge=0.1,
    )
    np.testing.assert_allclose(belief.mean, mean, rtol=0, atol=1e-9)
    np.testing.assert_allclose(belief.variance, variance, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["moveucb", "gp-ucb", "epsilon-greedy"])
@pytest.mark.parametrize("with_samples", [True, False])
def test_with_the_offset_of_the_survey_the_estimate_is_its_mean_plus_that_of_the_rest(
    paper: Config, survey: Survey, name: str, with_samples: bool
) -> None:
    config = paper.replace(algorithm__policy=name, reward__offset="survey")
    policy = make_policy(config, survey, with_samples=with_samples)
    assert isinstance(policy, HasPosterior)
    policy.observe(1, 1.25, 3.5)
    known = survey if with_samples else Survey(np.empty(0), np.empty(0))
    middle = float(np.mean(survey.reward))
    mean, variance = posterior(
        covariance(config.kernel),
        np.append(known.position, 1.25),
        np.append(known.reward, 3.5) - middle,
        policy.posterior.grid.points,
        sigma_f2=survey.sigma_f2(config),
        ridge=0.1,
    )
    np.testing.assert_allclose(policy.posterior.mean, middle + mean, rtol=0, atol=1e-9)
    np.testing.assert_allclose(policy.posterior.variance, variance, rtol=0, atol=1e-9)


def test_rewards_raised_by_a_constant_are_decided_the_same_with_the_offset_only(
    paper: Config, survey: Survey
) -> None:
    """The offset makes a policy blind to the level of the link, and F_t is on the true scale."""

    def played(offset: str, level: float) -> tuple[list[float], MoveUCB]:
        config = paper.replace(reward__offset=offset, algorithm__window=120)
        raised = Survey(survey.position, survey.reward + level, noise_variance=0.01)
        policy = make_policy(config, raised)
        assert isinstance(policy, MoveUCB)
        x, visited = policy.start_position, []
        for slot in range(1, 200):
            policy.observe(slot, x, level + 2.0 + float(np.cos(3.0 * x + 0.01 * slot)))
            x = policy.decide(slot, x).position
            visited.append(x)
        return visited, policy

    low, one = played("survey", 0.0)
    high, other = played("survey", 10.0)
    assert low == pytest.approx(high, abs=1e-12)
    np.testing.assert_allclose(other.surface, one.surface + 10.0, rtol=0, atol=1e-8)
    assert played("none", 0.0)[0] != pytest.approx(played("none", 10.0)[0], abs=1e-12)


def surface(config: Config, survey: Survey) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    policy = make_policy(config, survey)
    assert isinstance(policy, MoveUCB)
    policy.decide(0, 3.0)
    return policy.surface.copy()


@pytest.mark.parametrize(("name", "optimum"), [("moveucb", 1.5), ("gp-ucb", 3.5)])
def test_beta_is_the_optimum_of_the_policy_unless_it_is_set(
    paper: Config, survey: Survey, name: str, optimum: float
) -> None:
    own = paper.replace(algorithm__policy=name, algorithm__use_movement_cost=False)
    np.testing.assert_array_equal(
        surface(own, survey), surface(own.replace(algorithm__beta=optimum), survey)
    )
    two = surface(own.replace(algorithm__beta=2.0), survey)
    none = surface(own.replace(algorithm__beta=0.0), survey)
    np.testing.assert_allclose(
        (surface(own, survey) - none) * 2.0, (two - none) * optimum, rtol=0, atol=1e-12
    )
    assert np.abs(two - none).max() > 0.1


def test_epsilon_greedy_moves_by_its_seed(paper: Config) -> None:
    config = paper.replace(algorithm__policy="epsilon-greedy", algorithm__grid_spacing=0.03)
    world = simulate_map(config, 3, 300)
    first, again = (play(config, world, seed=5).trajectory.position for _ in range(2))
    np.testing.assert_array_equal(first, again)
    other = play(config, world, seed=6).trajectory.position
    assert (first != other).any()


def test_without_a_seed_it_is_that_of_the_run(paper: Config, survey: Survey) -> None:
    config = paper.replace(algorithm__policy="epsilon-greedy", algorithm__epsilon=1.0, run__seed=77)
    first = make_policy(config, survey)
    second = make_policy(config, survey, seed=77)
    other = make_policy(config, survey, seed=78)
    walks = [[policy.decide(t, 3.0).position for t in range(50)] for policy in (first, second)]
    assert walks[0] == walks[1]
    assert walks[0] != [other.decide(t, 3.0).position for t in range(50)]


@pytest.mark.parametrize("scale", [1e15, float("inf")])
def test_rewards_that_are_too_large_for_the_ridge_are_refused(paper: Config, scale: float) -> None:
    with pytest.raises(ConfigError, match="scale the rewards down"):
        make_posterior(paper, scale)
