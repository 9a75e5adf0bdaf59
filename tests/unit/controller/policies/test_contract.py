"""What every registered policy does, whichever it is."""

from __future__ import annotations

import subprocess
import sys
from math import isnan

import numpy as np
import pytest

from macontrol.config import Config
from macontrol.config.model.errors import ConfigError
from macontrol.controller.policies.description import PolicyDescription
from macontrol.controller.policies.policy import HasPosterior, HasSurface, Policy, margin_of
from macontrol.controller.policies.registry import POLICIES, make_policy
from macontrol.controller.survey.samples import Survey
from macontrol.sim.research.episode import play
from macontrol.sim.world.rewardmap import simulate_map

SLOTS = 240


@pytest.fixture(scope="module")
def survey() -> Survey:
    x = np.linspace(0.0, 6.0, 60)
    return Survey(x, 2.0 + np.cos(3.0 * x))


@pytest.fixture(params=POLICIES.names())
def description(request: pytest.FixtureRequest) -> PolicyDescription:
    return POLICIES[request.param]


@pytest.fixture
def config(paper: Config, description: PolicyDescription) -> Config:
    return paper.replace(algorithm__policy=description.name, algorithm__sweep_period=110)


@pytest.fixture
def policy(config: Config, survey: Survey) -> Policy:
    return make_policy(config, survey)


def test_the_paper_has_five_policies() -> None:
    five = {"epsilon-greedy", "fixed", "gp-ucb", "moveucb", "sweep-and-hold"}
    assert five < set(POLICIES.names())


def test_a_description_has_the_name_that_it_is_found_by(description: PolicyDescription) -> None:
    assert POLICIES[description.name] is description
    assert description.summary


def test_the_settings_of_a_description_exist(
    config: Config, description: PolicyDescription
) -> None:
    for setting in description.uses or ():
        section, _, key = setting.partition(".")
        table = getattr(config, section)
        assert not key or hasattr(table, key)


def test_it_starts_at_x_0(config: Config, policy: Policy) -> None:
    assert policy.start_position == config.physical.x_0


def test_every_step_is_within_reach_and_on_the_rail(config: Config, policy: Policy) -> None:
    rng = np.random.default_rng(1)
    position = policy.start_position
    for slot in range(1, SLOTS):
        if slot % 7:  # some slots have no reward
            policy.observe(slot, position, float(rng.normal(2.0, 1.0)))
        decision = policy.decide(slot, position)
        assert abs(decision.position - position) <= config.physical.rho_max + 1e-9
        assert 0 <= decision.position <= config.physical.region_length
        assert 0 <= decision.target <= config.physical.region_length
        assert decision.transit == (abs(decision.target - decision.position) > 1e-9)
        position = decision.position


def test_a_withdrawn_reward_was_never_there(config: Config, survey: Survey) -> None:
    """The decisions are those without it, if it is withdrawn before the next decision."""

    def decisions(disturbed: bool) -> list[float]:
        policy, found = make_policy(config, survey), []
        position = policy.start_position
        for slot in range(1, SLOTS):
            if slot % 5 == 0 and disturbed:
                policy.observe(slot, position, 90.0)
                policy.withdraw(slot)
            elif slot % 5:
                policy.observe(slot, position, 2.0 + np.cos(3.0 * position))
            position = policy.decide(slot, position).position
            found.append(position)
        return found

    np.testing.assert_allclose(decisions(True), decisions(False), atol=1e-9)


def test_a_resumed_policy_keeps_its_target(config: Config, survey: Survey) -> None:
    policy = make_policy(config, survey)
    first = policy.decide(1, policy.start_position)
    policy.resume(first.target)
    again = policy.decide(1, policy.start_position)
    if isinstance(policy, HasSurface):
        assert (again.target, again.switched) == (first.target, False)
    assert abs(again.position - policy.start_position) <= config.physical.rho_max + 1e-9


def test_the_survey_is_optional_unless_the_description_says_otherwise(
    config: Config, survey: Survey, description: PolicyDescription
) -> None:
    policy = make_policy(config, survey, with_samples=False)
    decision = policy.decide(1, policy.start_position)
    if description.starts_from_samples:
        assert decision.target == pytest.approx(survey.best_position, abs=0.01)
    if isinstance(policy, HasPosterior):
        # the prior mean everywhere
        assert (policy.posterior.mean == policy.posterior.mean[0]).all()


def test_a_policy_with_a_surface_gets_its_theory_check(config: Config, policy: Policy) -> None:
    episode = play(config, simulate_map(config, seed=2, slots=SLOTS), meter=True)
    measured = episode.trajectory.surface_movement
    assert (measured is not None) == isinstance(policy, HasSurface)
    assert isinstance(policy, HasSurface) or margin_of(policy) == 0.0
    assert all(verdict.holds is not False for verdict in episode.theory.values())
    decision = policy.decide(1, policy.start_position)
    if isinstance(policy, HasSurface):
        assert policy.surface.shape == config.grid.points.shape
    else:
        assert isnan(decision.shortfall)


def test_an_unknown_name_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(ConfigError) as refused:
        POLICIES["gp_uct"]
    assert "gp-ucb" in refused.value.fix


def test_descriptions_load_without_numpy() -> None:
    """The command line needs the names for its help."""
    code = (
        "import sys\n"
        "from macontrol.controller.policies.registry import POLICIES\n"
        "[POLICIES[name] for name in POLICIES.names()]\n"
        "assert 'numpy' not in sys.modules, 'NumPy is imported'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
