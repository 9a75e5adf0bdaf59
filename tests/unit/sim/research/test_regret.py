"""The regret of a live run, compared with the oracle in the same world."""

from __future__ import annotations

import numpy as np
import pytest

from macontrol.config import Config
from macontrol.sim.research.episode import play
from macontrol.sim.research.oracle import oracle_path, oracle_value
from macontrol.sim.research.regret import regret_of_run
from macontrol.sim.world.rewardmap import simulate_map

SLOTS = 200


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
