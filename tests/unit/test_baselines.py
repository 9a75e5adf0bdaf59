"""Sweep-and-hold, ε-greedy and the fixed antenna behave as the paper describes them."""

from __future__ import annotations

import numpy as np
import pytest

from macontrol.config import Config
from macontrol.controller.baselines import Fixed, SweepAndHold
from macontrol.controller.grid import Grid
from macontrol.controller.policies import make_policy
from macontrol.controller.survey import Survey
from macontrol.sim.campaign.episode import play
from macontrol.sim.rewardmap import RewardMap, simulate_map

PERIOD, SWEEP = 200, 100


@pytest.fixture(scope="module")
def sweeping(paper: Config) -> Config:
    return paper.replace(algorithm__policy="sweep-and-hold", algorithm__sweep_period=PERIOD)


@pytest.fixture(scope="module")
def world(sweeping: Config) -> RewardMap:
    return simulate_map(sweeping, 5, 4 * PERIOD)


@pytest.fixture(scope="module")
def position(sweeping: Config, world: RewardMap) -> list[float]:
    """Of sweep-and-hold, by slot; entry 0 is unused."""
    return [np.nan, *play(sweeping, world).trajectory.position.tolist()]


@pytest.fixture(scope="module")
def survey() -> Survey:
    """One whose best position is 3.03."""
    x = np.linspace(0.0, 6.0, 100).round(2)
    return Survey(x, 2.0 - np.abs(x - 3.03))


class TestSweepAndHold:
    def test_the_first_period_holds_the_best_of_the_survey(
        self, position: list[float], world: RewardMap
    ) -> None:
        best = float(world.survey_position[world.survey_reward.argmax()])
        assert position[1 : PERIOD + 1] == pytest.approx([best] * PERIOD, abs=1e-12)

    @pytest.mark.parametrize("period", [1, 2, 3])
    def test_each_later_period_sweeps_at_full_stroke_reflecting_at_the_ends(
        self, position: list[float], period: int
    ) -> None:
        first = period * PERIOD + 1
        x = position[first - 1]
        direction = np.sign(position[first] - x) if x not in (0.0, 6.0) else 0.0
        for slot in range(first, first + SWEEP):
            if direction == 0.0:
                direction = 1.0 if x == 0.0 else -1.0
            ahead = x + direction * 0.06
            if not -1e-9 <= ahead <= 6.0 + 1e-9:
                direction = -direction
                ahead = (12.0 if ahead > 6.0 else 0.0) - ahead
            assert position[slot] == pytest.approx(ahead, abs=1e-9)
            x = position[slot]

    @pytest.mark.parametrize("period", [1, 2, 3])
    def test_then_it_goes_to_the_best_recorded_position_and_holds(
        self, position: list[float], world: RewardMap, period: int
    ) -> None:
        first = period * PERIOD + 1
        swept = range(first, first + SWEEP)
        grid = np.linspace(0.0, 6.0, 601)
        seen = {
            slot: np.interp(position[slot], grid, world.reward[slot - 1]) + world.noise[slot - 1]
            for slot in swept
        }
        best = position[max(seen, key=lambda slot: seen[slot])]
        x = position[swept[-1]]
        for slot in range(first + SWEEP, first + PERIOD):
            x += float(np.clip(best - x, -0.06, 0.06))
            assert position[slot] == pytest.approx(x, abs=1e-9)
        assert position[first + PERIOD - 1] == pytest.approx(best, abs=1e-9)

    def test_a_sweep_forgets_the_rewards_of_the_one_before(self) -> None:
        policy = SweepAndHold(
            Grid(6.0, 601), rho_max=0.06, period=10, sweep_slots=3, start_position=3.0
        )
        x, held = 3.0, {}
        for slot in range(1, 31):
            # the first sweep sees better rewards than the second
            policy.observe(slot, x, 100.0 - slot if slot <= 20 else 10.0 + slot)
            x = policy.decide(slot, x).position
            held[slot + 1] = x
        assert held[20] == pytest.approx(3.06)  # seen in slot 11, the first of the sweep
        assert held[30] == pytest.approx(held[23])  # slot 23, the last of its sweep, was best

    def test_a_sweep_that_saw_nothing_changes_nothing(self) -> None:
        policy = SweepAndHold(
            Grid(6.0, 601), rho_max=0.06, period=50, sweep_slots=10, start_position=3.0
        )
        x = 3.0
        for slot in range(1, 100):
            x = policy.decide(slot, x).position
        assert x == 3.0

    def test_a_stroke_that_does_not_fit_the_rail_stays_on_it(self) -> None:
        policy = SweepAndHold(
            Grid(1.0, 11), rho_max=0.37, period=5, sweep_slots=5, start_position=0.2
        )
        x, visited = 0.2, []
        for slot in range(1, 60):
            x = policy.decide(slot, x).position
            visited.append(x)
        assert 0.0 <= min(visited) < 0.2
        assert 0.8 < max(visited) <= 1.0


class TestEpsilonGreedy:
    def decisions(self, config: Config, survey: Survey, epsilon: float) -> list[float]:
        values = {"algorithm__policy": "epsilon-greedy", "algorithm__epsilon": epsilon}
        policy = make_policy(config.replace(**values), survey, seed=3)
        return [round(policy.decide(slot, 3.0).position, 9) for slot in range(20_000)]

    def test_it_takes_the_best_mean_in_reach(self, paper: Config, survey: Survey) -> None:
        assert set(self.decisions(paper, survey, 0.0)) == {3.03}

    def test_it_moves_at_random_as_often_as_epsilon_says(
        self, paper: Config, survey: Survey
    ) -> None:
        """13 positions are in reach, the best one among them."""
        chosen = self.decisions(paper, survey, 0.1)
        share = np.mean([x != 3.03 for x in chosen])
        assert share == pytest.approx(0.1 * 12 / 13, abs=4 * np.sqrt(0.09 / 20_000))

    def test_random_moves_are_uniform_over_the_reach(self, paper: Config, survey: Survey) -> None:
        chosen = np.round(np.array(self.decisions(paper, survey, 1.0)) / 0.01).astype(int)
        positions, counts = np.unique(chosen, return_counts=True)
        assert positions.tolist() == list(range(294, 307))
        assert np.abs(counts - 20_000 / 13).max() < 5 * np.sqrt(20_000 / 13)

    def test_it_learns(self, paper: Config, survey: Survey) -> None:
        policy = make_policy(
            paper.replace(algorithm__policy="epsilon-greedy", algorithm__epsilon=0.0), survey
        )
        assert policy.decide(0, 3.0).position == pytest.approx(3.03)
        for slot in range(1, 300):
            policy.observe(slot, 3.03, -5.0)
        assert policy.decide(300, 3.0).position != pytest.approx(3.03)


class TestFixed:
    def test_it_never_moves(self, paper: Config) -> None:
        config = paper.replace(algorithm__policy="fixed", algorithm__grid_spacing=0.03)
        episode = play(config, simulate_map(config, 2, 100))
        assert set(episode.trajectory.position) == {3.0}
        assert episode.trajectory.travel == 0.0
        assert not episode.trajectory.switched.any()

    def test_its_position_is_the_one_configured(self, paper: Config) -> None:
        config = paper.replace(algorithm__policy="fixed", physical__initial_position=1.25)
        policy = make_policy(config, Survey(np.array([0.0, 6.0]), np.array([0.0, 9.0])))
        assert isinstance(policy, Fixed)
        assert policy.start_position == 1.25
        assert policy.decide(1, 1.25).position == 1.25
