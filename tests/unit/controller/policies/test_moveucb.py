"""MoveUCB and GP-UCB decide in every slot as the paper's equations, solved directly."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray

from macontrol.config import Config
from macontrol.config.model.grid import Grid
from macontrol.controller.policies.moveucb.algorithm import MoveUCB, movement_price
from macontrol.controller.policies.registry import make_policy
from macontrol.controller.survey.samples import Survey
from macontrol.sim.research.episode import play
from macontrol.sim.world.rewardmap import RewardMap, simulate_map
from support.paper_reference import gp_ucb, move_ucb, survey_scale

Array = NDArray[np.float64]

# Quick for the reference, by a coarser grid and a shorter window than the paper's, and lively.
QUICK = {
    "algorithm__grid_spacing": 0.03,
    "algorithm__window": 60,
    "survey__samples": 40,
    "algorithm__beta": 1.5,
    "drift__gain_correlation": 0.97,
    "drift__angle_step_deg": 1.0,
}

SETTINGS: dict[str, dict[str, object]] = {
    "MoveUCB": {},
    "(iii) global + cost": {"algorithm__use_persistence": False},
    "(ii) global": {"algorithm__use_persistence": False, "algorithm__use_movement_cost": False},
    "persistence without cost": {"algorithm__use_movement_cost": False},
    "eta 0": {"algorithm__eta": 0.0},
    "eta 8": {"algorithm__eta": 8.0},
    "margin 0": {"algorithm__margin": 0.0},
    "margin 0.5": {"algorithm__margin": 0.5},
    "window 5": {"algorithm__window": 5, "algorithm__eta": 0.1, "algorithm__margin": 0.0},
    "window shorter than the survey": {"algorithm__window": 25},
    "ridge 0.01": {"algorithm__ridge": 0.01},
    "ridge 5": {"algorithm__ridge": 5.0, "algorithm__eta": 0.0, "algorithm__margin": 0.0},
    "beta 0": {"algorithm__beta": 0.0},
    "beta 5": {"algorithm__beta": 5.0},
    "travel is dear": {"reward__movement_cost": 30.0},
    "squared exponential": {"kernel__name": "se"},
    "stroke off the grid": {"physical__stroke": 0.05},
    "start at the end": {"physical__initial_position": 6.0},
    "dense, piecewise": {"channel__scenario": "dense", "drift__model": "piecewise"},
}


def world_of(config: Config, slots: int, seed: int = 12) -> RewardMap:
    return simulate_map(config, seed, slots)


def survey_of(world: RewardMap) -> list[tuple[float, float]]:
    return list(zip(world.survey_position.tolist(), world.survey_reward.tolist(), strict=True))


def assert_follows_algorithm_1(config: Config, slots: int, beta: float, *, seed: int = 12) -> None:
    world = world_of(config, slots, seed)
    episode = play(config, world, meter=True)
    expected = move_ucb(config, world.reward, world.noise, survey_of(world), beta=beta)
    run = episode.trajectory
    np.testing.assert_allclose(run.position, expected.position, rtol=0, atol=1e-9)
    np.testing.assert_allclose(run.target, expected.target, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(run.switched, expected.switched)
    np.testing.assert_array_equal(run.transit, expected.transit)
    np.testing.assert_allclose(run.shortfall, expected.shortfall, rtol=0, atol=1e-8)
    assert run.surface_movement == pytest.approx(expected.surface_movement, rel=1e-8)
    assert len(np.unique(run.target)) > 3, "a run in which nothing happens shows nothing"


@pytest.mark.parametrize("values", SETTINGS.values(), ids=SETTINGS.keys())
def test_it_follows_algorithm_1(paper: Config, values: dict[str, object]) -> None:
    config = paper.replace(**{**QUICK, **values})
    beta = config.algorithm.beta
    assert beta != "auto"
    assert_follows_algorithm_1(config, 600, beta)


def test_it_follows_algorithm_1_at_the_settings_of_the_paper(paper: Config) -> None:
    assert_follows_algorithm_1(paper, 250, beta=1.5, seed=8)


@pytest.mark.parametrize(
    "values",
    [{}, {"algorithm__beta": 3.5}, {"physical__stroke": 0.05}, {"kernel__name": "const-se"}],
    ids=str,
)
def test_gp_ucb_takes_the_largest_bound_in_reach(paper: Config, values: dict[str, object]) -> None:
    config = paper.replace(algorithm__policy="gp-ucb", **{**QUICK, **values})
    beta = config.algorithm.beta
    assert beta != "auto"
    world = world_of(config, 600)
    run = play(config, world).trajectory
    expected = gp_ucb(config, world.reward, world.noise, survey_of(world), beta=beta)
    np.testing.assert_allclose(run.position, expected, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(run.target, run.next_position)
    assert not run.transit.any()
    assert len(np.unique(run.position)) > 3


def test_gp_ucb_at_the_settings_of_the_paper(paper: Config) -> None:
    config = paper.replace(algorithm__policy="gp-ucb")
    world = world_of(config, 150)
    expected = gp_ucb(config, world.reward, world.noise, survey_of(world), beta=3.5)
    np.testing.assert_allclose(play(config, world).trajectory.position, expected, rtol=0, atol=1e-9)


def test_stage_one_of_the_ladder_is_gp_ucb(paper: Config) -> None:
    """(i) local: the search confined to the reach, without price and margin."""
    config = paper.replace(**QUICK)
    world = world_of(config, 400)
    local = config.replace(
        algorithm__search="local",
        algorithm__use_movement_cost=False,
        algorithm__use_persistence=False,
    )
    first = play(local, world).trajectory
    second = play(config.replace(algorithm__policy="gp-ucb"), world).trajectory
    np.testing.assert_array_equal(first.position, second.position)


def test_gp_ucb_knows_neither_price_nor_margin(paper: Config) -> None:
    config = paper.replace(algorithm__policy="gp-ucb", **QUICK)
    dear = config.replace(reward__movement_cost=66.0, algorithm__eta=50.0, algorithm__margin=5.0)
    world = world_of(config, 300)
    np.testing.assert_array_equal(
        play(config, world).trajectory.position, play(dear, world).trajectory.position
    )


def test_the_price_of_movement_is_that_of_the_paper() -> None:
    """c̃ = (c_e + η·σ_f/ρ_max)/w."""
    price = movement_price(0.3, eta=2.0, sigma_f=0.9, rho_max=0.06, window=300)
    assert price == pytest.approx((0.3 + 2 * 0.9 / 0.06) / 300, rel=1e-15)


@dataclass
class Belief:
    """A posterior with the values of a test."""

    grid: Grid
    mean: Array
    variance: Array
    seen: list[tuple[int, float, float]] = field(default_factory=list)

    def observe(self, slot: int, position: float, reward: float) -> None:
        self.seen.append((slot, position, reward))

    def withdraw(self, slot: int) -> None:
        self.seen = [sample for sample in self.seen if sample[0] != slot]


def belief(mean: list[float], variance: list[float] | None = None) -> Belief:
    size = len(mean)
    spread = np.zeros(size) if variance is None else np.array(variance)
    return Belief(Grid(size - 1.0, size), np.array(mean), spread)


def mover(subject: Belief, **values: float) -> MoveUCB:
    given = {"rho_max": 1.0, "beta": 1.0, "price": 0.0, "margin": 0.0, "start_position": 2.0}
    return MoveUCB(subject, search="global", **(given | values))


class TestOneDecision:
    """Lines 5 to 8 of Algorithm 1 on surfaces that can be worked out by hand."""

    def test_the_lowest_of_equal_targets_is_chosen(self) -> None:
        decision = mover(belief([1.0, 3.0, 0.0, 3.0, 3.0])).decide(1, 2.0)
        assert (decision.target, decision.position, decision.switched) == (1.0, 1.0, True)

    def test_the_lowest_of_equal_targets_within_reach_is_chosen(self) -> None:
        policy = MoveUCB(
            belief([9.0, 3.0, 0.0, 3.0, 9.0]),
            rho_max=1.0,
            beta=1.0,
            price=0.0,
            margin=0.0,
            start_position=2.0,
            search="local",
        )
        assert policy.decide(1, 2.0).position == 1.0

    def test_the_bonus_is_beta_standard_deviations(self) -> None:
        """√0.04 = 0.2 and √0.25 = 0.5: bounds of 1.4 and 1.45 at β = 2, 1.2 and 0.95 at β = 1."""
        subject = belief([1.0, 0.0, 0.0, 0.0, 0.45], [0.04, 0.0, 0.0, 0.0, 0.25])
        assert mover(subject, beta=1.0).decide(1, 2.0).target == 0.0
        assert mover(subject, beta=2.0).decide(1, 2.0).target == 4.0

    def test_the_price_is_paid_from_where_the_antenna_is(self) -> None:
        subject = belief([2.0, 0.0, 0.0, 0.0, 2.5])
        assert mover(subject, price=0.0).decide(1, 1.0).target == 4.0
        # from 1, the way to 4 is longer than that to 0 by 2
        assert mover(subject, price=0.26).decide(1, 1.0).target == 0.0
        assert mover(subject, price=0.24).decide(1, 1.0).target == 4.0

    @pytest.mark.parametrize(("margin", "switches"), [(0.49, True), (0.5, False), (0.51, False)])
    def test_a_target_is_left_only_when_beaten_by_more_than_the_margin(
        self, margin: float, switches: bool
    ) -> None:
        decision = mover(belief([1.5, 0.0, 1.0, 0.0, 0.0]), margin=margin).decide(1, 2.0)
        assert decision.switched is switches
        assert decision.target == (0.0 if switches else 2.0)
        assert decision.shortfall == (0.0 if switches else 0.5)

    def test_a_resumed_run_keeps_the_target_of_the_one_before(self) -> None:
        policy = mover(belief([0.0, 0.0, 0.2, 0.0, 0.0]), margin=1.0)
        assert policy.decide(1, 2.0).target == 2.0
        policy.resume(4.1)
        decision = policy.decide(2, 2.0)
        assert (decision.target, decision.position, decision.switched) == (4.0, 3.0, False)

    def test_a_distant_target_is_approached_by_one_stroke(self) -> None:
        decision = mover(belief([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 7.0])).decide(1, 2.0)
        assert (decision.target, decision.position, decision.transit) == (6.0, 3.0, True)
        decision = mover(belief([0.0, 0.0, 0.0, 7.0, 0.0])).decide(1, 2.0)
        assert (decision.target, decision.position, decision.transit) == (3.0, 3.0, False)

    def test_the_target_is_kept_from_slot_to_slot(self) -> None:
        subject = belief([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 7.0])
        policy = mover(subject, margin=0.5)
        first = policy.decide(1, 2.0)
        subject.mean[0] = 7.4  # better, but not by the margin
        second = policy.decide(2, first.position)
        assert (second.target, second.position, second.switched) == (6.0, 4.0, False)
        subject.mean[0] = 7.6
        third = policy.decide(3, second.position)
        assert (third.target, third.position, third.switched) == (0.0, 3.0, True)

    def test_a_variance_rounded_below_zero_counts_as_none(self) -> None:
        decision = mover(belief([0.0, 0.0, 1.0], [0.0, 0.0, -1e-18])).decide(1, 2.0)
        assert decision.target == 2.0
        assert decision.shortfall == 0.0


def test_the_policy_is_calibrated_by_the_survey(paper: Config) -> None:
    """The margin follows sigma_f, the survey fills the window from left to right before slot 1."""
    world = world_of(paper, 1)
    policy = make_policy(paper, Survey(world.survey_position, world.survey_reward))
    assert isinstance(policy, MoveUCB)
    sigma_f = np.sqrt(survey_scale(paper, world.survey_reward))
    assert policy.margin == pytest.approx(0.1 * sigma_f, rel=1e-12)
    assert policy.start_position == 3.0
