"""Sweep-and-hold, ε-greedy and the fixed antenna behave as the paper describes them."""

from __future__ import annotations

import numpy as np
import pytest

from macontrol.config import Config, load_config, preset_names
from macontrol.config.model.grid import Grid
from macontrol.controller.policies.fixed import Fixed
from macontrol.controller.policies.registry import make_policy
from macontrol.controller.policies.sweep_and_hold.algorithm import SweepAndHold
from macontrol.controller.survey.samples import Survey
from macontrol.sim.research.episode import play
from macontrol.sim.world.rewardmap import RewardMap, simulate_map

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
    def test_the_first_period_goes_from_x_0_to_the_best_of_the_survey_and_holds(
        self, position: list[float], world: RewardMap
    ) -> None:
        best = float(world.survey_position[world.survey_reward.argmax()])
        x, expected = 3.0, [3.0]
        while len(expected) < PERIOD:
            x += float(np.clip(best - x, -0.06, 0.06))
            expected.append(x)
        assert position[1 : PERIOD + 1] == pytest.approx(expected, abs=1e-9)
        assert abs(best - 3.0) > 0.06

    def test_in_the_paper_s_figures_it_begins_held(
        self, sweeping: Config, world: RewardMap
    ) -> None:
        best = float(world.survey_position[world.survey_reward.argmax()])
        held = play(sweeping, world, begin_held=True).trajectory
        assert held.position[:PERIOD] == pytest.approx([best] * PERIOD, abs=1e-12)
        assert held.start == pytest.approx(best)

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

    @pytest.mark.parametrize("preset", preset_names())
    def test_a_sweep_from_one_end_gets_to_the_other_on_every_preset(self, preset: str) -> None:
        config = load_config(preset=preset, assignments=["algorithm.policy=sweep-and-hold"])
        length, stroke = config.physical.region_length, config.physical.rho_max
        policy = make_policy(config, Survey(np.array([0.0, length]), np.array([1.0, 0.0])))
        x, visited = policy.start_position, {}
        for slot in range(1, 2 * config.algorithm.sweep_period):
            x = policy.decide(slot, x).position
            visited[slot + 1] = x
        sweep = [visited[slot] for slot in range(1001, 1001 + int(np.ceil(length / stroke - 1e-9)))]
        assert sweep[0] == pytest.approx(stroke)
        assert max(sweep) > length - stroke
        assert visited[1001 + len(sweep)] < visited[1000 + len(sweep)]  # it goes back to hold

    def test_the_paper_sweeps_as_many_slots_as_its_survey_has_samples(self, paper: Config) -> None:
        assert paper.traversal_slots == paper.survey.samples == 100

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

    def test_a_sweep_without_rewards_changes_nothing(self) -> None:
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


class TestWithdrawal:
    def sweep(self, config: Config, survey: Survey, rewards: dict[int, float]) -> SweepAndHold:
        """A policy after its first sweep, which saw these rewards by slot."""
        policy = make_policy(config, survey)
        assert isinstance(policy, SweepAndHold)
        policy.decide(PERIOD, 3.0)
        for slot, reward in rewards.items():
            policy.observe(slot, 3.0 + 0.06 * (slot - PERIOD), reward)
        return policy

    def hold_of(self, policy: SweepAndHold) -> float:
        return policy.decide(PERIOD + SWEEP, 3.0).target

    def test_the_best_remaining_position_is_held(self, sweeping: Config, survey: Survey) -> None:
        policy = self.sweep(sweeping, survey, {PERIOD + 1: 0.5, PERIOD + 2: 2.0, PERIOD + 3: 1.0})
        assert self.hold_of(policy) == pytest.approx(3.12)
        policy.withdraw(PERIOD + 2)
        assert self.hold_of(policy) == pytest.approx(3.18)
        policy.observe(PERIOD + 4, 3.24, 0.9)
        assert self.hold_of(policy) == pytest.approx(3.18)

    def test_without_rewards_of_the_sweep_it_returns_to_the_held_position(
        self, sweeping: Config, survey: Survey
    ) -> None:
        policy = self.sweep(sweeping, survey, {PERIOD + 1: 0.0, PERIOD + 2: 0.0})
        assert self.hold_of(policy) == pytest.approx(3.06)
        for slot in (PERIOD + 1, PERIOD + 2, PERIOD + 3):
            policy.withdraw(slot)
        assert self.hold_of(policy) == pytest.approx(survey.best_position)

    @pytest.mark.parametrize("name", ["moveucb", "gp-ucb", "epsilon-greedy", "fixed"])
    def test_a_policy_decides_as_if_the_slot_had_no_reward(
        self, paper: Config, survey: Survey, name: str
    ) -> None:
        config = paper.replace(algorithm__policy=name)
        poisoned, clean = make_policy(config, survey), make_policy(config, survey)
        x = y = clean.start_position
        for slot in range(1, 40):
            lost = 10 <= slot < 18
            poisoned.observe(slot, x, 0.0 if lost else 2.0 - abs(x - 3.03))
            if not lost:
                clean.observe(slot, x, 2.0 - abs(x - 3.03))
            if slot == 17:
                for withdrawn in range(10, 18):
                    poisoned.withdraw(withdrawn)
            if lost and slot < 17:
                continue
            here, there = poisoned.decide(slot, x), clean.decide(slot, y)
            if slot > 17:
                assert here.position == pytest.approx(there.position, abs=1e-9)
            x = y = there.position
