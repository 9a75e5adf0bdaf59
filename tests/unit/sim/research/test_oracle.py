"""The oracle on cases with an obvious answer and on a map of the paper; the regret of a run."""

import math

import numpy as np
import pytest

from macontrol.config import Config, load_config
from macontrol.sim.research.episode import play
from macontrol.sim.research.oracle import oracle_path, oracle_value, regret_of_run
from macontrol.sim.world.rewardmap import RewardMap, simulate_map

SLOTS = 200


@pytest.fixture(scope="module")
def paper() -> Config:
    return load_config()


@pytest.fixture(scope="module")
def rewards(paper: Config) -> RewardMap:
    return simulate_map(paper, seed=2, slots=1500)


def test_the_oracle_moves_to_a_peak_at_full_stroke_and_pays(paper: Config) -> None:
    reward = np.zeros((30, 601))
    reward[:, 300 + 60] = 10.0
    path = oracle_path(reward, paper)
    np.testing.assert_array_equal(path.index[9:], 360)
    assert np.abs(np.diff(path.index, prepend=300)).max() == 6
    assert path.value == pytest.approx(21 * 10.0 - 0.3 * 0.6)
    assert oracle_value(reward, paper) == pytest.approx([path.value])


def test_oracle_stays_when_travel_does_not_pay(paper: Config) -> None:
    reward = np.zeros((30, 601))
    reward[:, 310] = 0.01
    path = oracle_path(reward, paper, 66.0)
    assert path.value == 0.0
    np.testing.assert_array_equal(path.index, 300)


def test_the_first_move_is_within_the_stroke_and_has_its_cost(paper: Config) -> None:
    reward = np.arange(601.0)[np.newaxis]
    assert oracle_value(reward, paper) == pytest.approx([306 - 0.3 * 0.06])
    path = oracle_path(reward, paper)
    assert path.index.tolist() == [306]
    assert path.value == pytest.approx(306 - 0.3 * 0.06)


def test_start_between_grid_points_reaches_those_within_the_stroke(paper: Config) -> None:
    config = paper.replace(physical__initial_position=3.004)
    reward = np.arange(601.0)[np.newaxis]
    assert oracle_value(reward, config) == pytest.approx([306 - 0.3 * 0.056])
    assert oracle_value(-reward, config) == pytest.approx([-295 - 0.3 * 0.054])


def test_stroke_is_counted_in_whole_steps_despite_rounding(paper: Config) -> None:
    # 0.07 / 0.01 is 7.000000000000001 and 0.29 / 0.01 is 28.999999999999996.
    for stroke, steps in ((0.07, 7), (0.29, 29), (0.069, 6)):
        config = paper.replace(physical__stroke=stroke, physical__actuator_speed_m_per_s=3.0)
        path = oracle_path(np.arange(601.0)[np.newaxis].repeat(3, axis=0), config)
        assert path.index.tolist() == [300 + steps, 300 + 2 * steps, 300 + 3 * steps]


def test_ties_go_to_the_lowest_position(paper: Config) -> None:
    path = oracle_path(np.zeros((3, 601)), paper, 0.0)
    assert path.index.tolist() == [294, 288, 282]


def test_path_is_feasible_and_earns_the_value(paper: Config, rewards: RewardMap) -> None:
    for cost in (0.0, 0.3, 30.0):
        path = oracle_path(rewards.reward, paper, cost)
        travel = np.abs(np.diff(path.position, prepend=paper.physical.x_0))
        assert travel.max() <= paper.physical.rho_max + 1e-12
        earned = math.fsum(rewards.reward[np.arange(1500), path.index]) - cost * math.fsum(travel)
        assert path.value == pytest.approx(earned, abs=1e-9)
        assert oracle_value(rewards.reward, paper, [cost])[0] == pytest.approx(earned, abs=1e-9)


def test_several_costs_at_once_are_the_same_as_one_by_one(
    paper: Config, rewards: RewardMap
) -> None:
    costs = [0.0, 0.3, 3.0, 66.0]
    together = oracle_value(rewards.reward, paper, costs)
    singly = [oracle_value(rewards.reward, paper, [cost])[0] for cost in costs]
    np.testing.assert_array_equal(together, singly)
    assert (np.diff(together) < 0).all()
    assert oracle_value(rewards.reward, paper)[0] == together[1]


def test_the_rewards_are_not_modified(paper: Config, rewards: RewardMap) -> None:
    before = rewards.reward.copy()
    oracle_value(rewards.reward, paper)
    oracle_path(rewards.reward, paper)
    np.testing.assert_array_equal(rewards.reward, before)


def test_rewards_on_another_grid_are_refused(paper: Config) -> None:
    for shape in ((5, 600), (0, 601), (601,)):
        with pytest.raises(ValueError, match="601 positions"):
            oracle_value(np.zeros(shape), paper)


@pytest.mark.parametrize("policy", ["moveucb", "gp-ucb", "sweep-and-hold", "fixed"])
def test_the_regret_is_the_oracles_value_minus_the_runs(paper: Config, policy: str) -> None:
    config = paper.replace(algorithm__policy=policy)
    world = simulate_map(config, seed=6, slots=SLOTS)
    episode = play(config, world, seed=6)
    best = float(oracle_value(world.reward, config)[0])
    expected = (best - episode.net_reward(config.reward.movement_cost)) / SLOTS
    positions = [float(x) for x in episode.trajectory.position]
    found = regret_of_run(config, 6, range(1, SLOTS + 1), positions)
    assert found == pytest.approx(expected)
    assert found > 0


def test_the_oracle_has_no_regret(paper: Config) -> None:
    world = simulate_map(paper, seed=6, slots=SLOTS)
    path = oracle_path(world.reward, paper)
    positions = [float(x) for x in path.position]
    assert positions[0] != paper.physical.x_0
    found = regret_of_run(paper, 6, range(1, SLOTS + 1), positions)
    assert found == pytest.approx(0.0, abs=1e-9)


def test_in_missed_slots_the_antenna_stays(paper: Config) -> None:
    slots = [1, 2, 3, 10, 11, 50]
    positions = [3.0, 3.06, 3.12, 3.18, 3.24, 3.3]
    held = np.array(positions)[np.searchsorted(slots, np.arange(1, 51), side="right") - 1]
    whole = regret_of_run(paper, 6, range(1, 51), [float(x) for x in held])
    assert regret_of_run(paper, 6, slots, positions) == pytest.approx(whole)


def test_before_its_first_slot_the_antenna_stays(paper: Config) -> None:
    late = regret_of_run(paper, 6, [4, 5], [2.0, 2.0])
    assert late == pytest.approx(regret_of_run(paper, 6, range(1, 6), [2.0] * 5))


def test_between_grid_points_and_at_the_ends(paper: Config) -> None:
    for position in (0.0, 0.004, 3.0025, 5.999, 6.0):
        assert np.isfinite(regret_of_run(paper, 6, [1, 2], [position] * 2))


def test_off_the_rail_the_reward_is_that_of_the_end(paper: Config) -> None:
    """A stage that lost its position can report this; the travel has its cost too."""
    farther = 0.5 * paper.reward.movement_cost / 2
    at_end = regret_of_run(paper, 6, [1, 2], [6.0, 6.0])
    assert regret_of_run(paper, 6, [1, 2], [6.5, 6.5]) == pytest.approx(at_end + farther)
    at_start = regret_of_run(paper, 6, [1, 2], [0.0, 0.0])
    assert regret_of_run(paper, 6, [1, 2], [-0.5, -0.5]) == pytest.approx(at_start + farther)
