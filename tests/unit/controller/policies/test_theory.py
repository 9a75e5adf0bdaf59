"""The paper's constants, and a checker that distinguishes runs within the bounds from others."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations_with_replacement
from math import e, log, sqrt

import numpy as np
import pytest
from numpy.typing import NDArray

from macontrol.config import Config
from macontrol.config.model.grid import Grid
from macontrol.controller.policies import theory
from macontrol.controller.policies.features import kernel_features
from macontrol.controller.policies.kernel import kernel_from_config
from macontrol.controller.policies.posterior import WindowedPosterior
from macontrol.controller.policies.theory import (
    SurfaceMeter,
    Trajectory,
    Verdict,
    balanced_margin,
    check_run,
    confidence_beta,
    information_gain,
    surface_bound,
    switch_cost,
)
from macontrol.sim.research.episode import Episode, play
from macontrol.sim.world.rewardmap import simulate_map
from support.paper_reference import covariance, log_det_gain, posterior

Array = NDArray[np.float64]
NAMES = {"reach", "region", "travel", "transit", "switches", "persistence"}


class TestInformationGain:
    @pytest.mark.parametrize("samples", [1, 2, 7, 40])
    @pytest.mark.parametrize("name", ["physics", "se"])
    def test_it_is_the_log_determinant_of_a_greedy_set(
        self, paper: Config, samples: int, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        chosen: list[float] = []

        class Recorded(WindowedPosterior):
            def observe(self, slot: int, position: float, reward: float) -> None:
                chosen.append(position)
                super().observe(slot, position, reward)

        monkeypatch.setattr(theory, "WindowedPosterior", Recorded)
        config = paper.replace(kernel__name=name)
        features = kernel_features(kernel_from_config(config.kernel), Grid(6.0, 121))
        gain = information_gain(features, samples, sigma_f2=2.0, ridge=0.1)

        k, points, x = covariance(config.kernel), features.grid.points, np.array(chosen)
        assert len(x) == samples
        expected = log_det_gain(k, x, sigma_f2=2.0, ridge=0.1)
        assert gain == pytest.approx(expected, rel=1e-9)
        for i in range(samples):
            _, variance = posterior(k, x[:i], np.zeros(i), points, sigma_f2=2.0, ridge=0.1)
            taken = variance[np.abs(points - x[i]).argmin()]
            assert taken >= variance.max() - 1e-9

    def test_it_is_near_the_best_of_all_sets(self, paper: Config) -> None:
        """Greedy is at least 1 − 1/e of the maximum; here the maximum is found by trying all."""
        grid = Grid(6.0, 9)
        k = covariance(paper.kernel)
        best = max(
            log_det_gain(k, np.array(chosen), sigma_f2=1.0, ridge=0.1)
            for chosen in combinations_with_replacement(grid.points.tolist(), 4)
        )
        features = kernel_features(kernel_from_config(paper.kernel), grid)
        greedy = information_gain(features, 4, sigma_f2=1.0, ridge=0.1)
        assert (1 - 1 / e) * best <= greedy <= best + 1e-9

    def test_one_sample_is_worth_half_a_logarithm(self, paper: Config) -> None:
        features = kernel_features(kernel_from_config(paper.kernel), Grid(6.0, 121))
        gain = information_gain(features, 1, sigma_f2=3.0, ridge=0.1)
        assert gain == pytest.approx(0.5 * log(31.0), rel=1e-12)


class TestConstants:
    def test_beta_is_that_of_theorem_1(self) -> None:
        beta = confidence_beta(
            norm_bound=2.0, noise_bound=0.2, ridge=0.1, gamma_w=30.0, horizon=15300, delta=0.05
        )
        expected = 2.0 + 0.2 / sqrt(0.1) * sqrt(2 * (30.0 + 1 + log(2 * 15300 / 0.05)))
        assert beta == pytest.approx(expected, rel=1e-14)

    def test_the_cost_of_a_switch(self, paper: Config) -> None:
        """C_0 = D(c_e + 2 g_max/ρ_max) at Table 1."""
        cost = switch_cost(length=6.0, movement_cost=0.3, g_max=paper.g_max, rho_max=0.06)
        assert cost == pytest.approx(6 * (0.3 + 2 * 0.8 * np.log2(31) / 0.06), rel=1e-14)

    def test_the_bound_on_the_surface(self) -> None:
        bound = surface_bound(
            beta=1.5,
            sigma_f=0.9,
            noise_bound=0.2,
            ridge=0.1,
            gamma_w=30.0,
            window=300,
            horizon=1000,
            variation=100.0,
        )
        a = 0.9 * ((1.5 * 0.9 + 0.2) / 0.1 + 1.5 / sqrt(0.1))
        drift = 0.9**3 / 0.1**1.5 * 300**1.5 * 100.0
        assert bound == pytest.approx(a * 1000 * sqrt(30.0 / 300) + drift, rel=1e-12)

    def test_the_margin_balances_switching_and_holding(self) -> None:
        margin = balanced_margin(c_0=800.0, surface_movement=50.0, horizon=15300)
        assert 800.0 * 50.0 / margin == pytest.approx(margin * 15300, rel=1e-12)


class TestSurfaceMeter:
    def test_it_sums_the_largest_change_from_slot_to_slot(self) -> None:
        surfaces = np.random.default_rng(2).standard_normal((40, 17))
        meter = SurfaceMeter()
        for surface in surfaces:
            meter.update(surface)
        assert meter.movement == pytest.approx(np.abs(np.diff(surfaces, axis=0)).max(axis=1).sum())

    def test_a_surface_that_is_reused_in_place_is_compared_with_its_copy(self) -> None:
        meter, surface = SurfaceMeter(), np.zeros(5)
        for value in (0.0, 1.0, -1.0):
            surface[:] = value
            meter.update(surface)
        assert meter.movement == 3.0


@pytest.fixture(scope="module")
def lively(paper: Config) -> Config:
    return paper.replace(
        algorithm__grid_spacing=0.03,
        algorithm__window=60,
        survey__samples=40,
        drift__gain_correlation=0.97,
        drift__angle_step_deg=1.0,
    )


@pytest.fixture(scope="module")
def episode(lively: Config) -> Episode:
    return play(lively, simulate_map(lively, 12, 600), meter=True)


@pytest.fixture(scope="module")
def margin(episode: Episode) -> float:
    bound = episode.theory["persistence"].bound
    assert bound is not None
    return bound


def checked(run: Trajectory, margin: float) -> dict[str, Verdict]:
    return check_run(run, length=6.0, rho_max=0.06, margin=margin)


class TestCheckedRuns:
    def test_a_run_of_moveucb_is_within_every_bound(self, episode: Episode) -> None:
        assert episode.theory.keys() == NAMES
        assert all(verdict.holds is True for verdict in episode.theory.values())
        assert episode.trajectory.switched.sum() > 20

    def test_the_verdicts_have_the_measured_values(self, episode: Episode, margin: float) -> None:
        run, verdicts = episode.trajectory, episode.theory
        switches = int(run.switched.sum())
        step = float(np.abs(run.next_position - run.position).max())
        assert verdicts["reach"].value == pytest.approx(step)
        assert verdicts["reach"].bound == 0.06
        assert verdicts["travel"].bound == 6.0 * (switches + 1)
        assert verdicts["transit"].value == run.transit.sum()
        assert verdicts["transit"].bound == pytest.approx(100.0 * (switches + 1))
        assert verdicts["switches"].value == switches
        assert run.surface_movement is not None
        assert verdicts["switches"].bound == pytest.approx(1 + 2 * run.surface_movement / margin)
        assert verdicts["persistence"].value == run.shortfall.max() <= margin

    @pytest.mark.parametrize(
        "values",
        [
            {"algorithm__policy": "gp-ucb"},
            {"algorithm__policy": "sweep-and-hold", "algorithm__sweep_period": 150},
            {"algorithm__policy": "epsilon-greedy"},
            {"algorithm__policy": "fixed"},
        ],
        ids=lambda values: str(values["algorithm__policy"]),
    )
    def test_a_policy_without_targets_is_checked_for_reach_and_region_only(
        self, lively: Config, values: dict[str, object]
    ) -> None:
        config = lively.replace(**values)
        verdicts = play(config, simulate_map(config, 12, 600), meter=True).theory
        assert verdicts["reach"].holds is True
        assert verdicts["region"].holds is True
        assert verdicts["switches"].holds is None
        assert verdicts["persistence"].holds is None

    def test_without_persistence_switches_have_no_bound(self, lively: Config) -> None:
        config = lively.replace(algorithm__use_persistence=False)
        verdicts = play(config, simulate_map(config, 12, 300), meter=True).theory
        assert verdicts["switches"].holds is None
        assert verdicts["persistence"].holds is True

    def test_without_a_meter_switches_cannot_be_judged(self, lively: Config) -> None:
        verdicts = play(lively, simulate_map(lively, 12, 100)).theory
        assert verdicts["switches"].holds is None


class TestViolatedRuns:
    """Each inequality broken on purpose, alone or with what it implies."""

    @staticmethod
    def broken(verdicts: dict[str, Verdict]) -> set[str]:
        return {name for name, verdict in verdicts.items() if verdict.holds is False}

    def test_a_step_too_long(self, episode: Episode, margin: float) -> None:
        run = episode.trajectory
        after = run.next_position.copy()
        after[7] = run.position[7] + 0.0601
        assert self.broken(checked(replace(run, next_position=after), margin)) == {"reach"}

    def test_a_position_that_was_not_the_one_decided(self, episode: Episode, margin: float) -> None:
        run = episode.trajectory
        position, after = run.position.copy(), run.next_position.copy()
        position[300:] = np.clip(position[300:] + 0.5, 0, 6)
        after[300:] = np.clip(after[300:] + 0.5, 0, 6)
        moved = replace(run, position=position, next_position=after)
        assert "reach" in self.broken(checked(moved, margin))

    @pytest.mark.parametrize("off", [-0.001, 6.001])
    def test_off_the_rail(self, episode: Episode, margin: float, off: float) -> None:
        run = episode.trajectory
        at = 0.0 if off < 0 else 6.0
        still = np.full(4, at)
        leaves = replace(
            run,
            start=at,
            position=still,
            next_position=np.array([at, off, at, at]),
            target=still,
            shortfall=np.zeros(4),
        )
        assert self.broken(checked(leaves, margin)) == {"region"}

    def test_travel_without_switches(self, margin: float) -> None:
        """To and fro across the whole rail for one target: more than D(0 + 1)."""
        there = np.concatenate([np.arange(0, 6, 0.06), np.arange(6, 0, -0.06)])
        run = Trajectory(
            start=0.0,
            position=there,
            next_position=np.append(there[1:], 0.0),
            target=np.zeros(len(there)),
            shortfall=np.zeros(len(there)),
            surface_movement=0.0,
        )
        assert self.broken(checked(run, margin)) == {"travel", "transit"}
        half = slice(0, 99)
        way_there = replace(
            run,
            position=run.position[half],
            next_position=run.next_position[half],
            target=run.target[half],
            shortfall=run.shortfall[half],
        )
        assert self.broken(checked(way_there, margin)) == set()

    def test_transit_without_progress(self, margin: float) -> None:
        """Never there, and never on the way either: more than D/ρ_max transit slots."""
        still, target = np.full(300, 3.0), np.full(300, 5.0)
        run = Trajectory(3.0, still, still, target, np.zeros(300), surface_movement=0.0)
        # one switch, to 5, at the start: 200 transit slots are allowed
        assert self.broken(checked(run, margin)) == {"transit"}
        fewer = Trajectory(
            3.0, still[:200], still[:200], target[:200], np.zeros(200), surface_movement=0.0
        )
        assert self.broken(checked(fewer, margin)) == set()

    def test_more_switches_than_the_surface_accounts_for(
        self, episode: Episode, margin: float
    ) -> None:
        run = episode.trajectory
        switches = int(run.switched.sum())
        least = (switches - 1) * margin / 2
        too_little = replace(run, surface_movement=0.999 * least)
        assert self.broken(checked(too_little, margin)) == {"switches"}
        enough = replace(run, surface_movement=1.001 * least)
        assert self.broken(checked(enough, margin)) == set()

    def test_a_target_held_beyond_the_margin(self, episode: Episode, margin: float) -> None:
        run = episode.trajectory
        shortfall = run.shortfall.copy()
        shortfall[123] = 1.001 * margin
        assert self.broken(checked(replace(run, shortfall=shortfall), margin)) == {"persistence"}


class TestTrajectory:
    def test_switches_are_counted_from_the_start(self) -> None:
        position = np.array([3.0, 3.0, 3.06, 3.12, 3.12])
        run = Trajectory(
            start=3.0,
            position=position,
            next_position=np.append(position[1:], 3.12),
            target=np.array([3.0, 3.12, 3.12, 3.12, 1.0]),
            shortfall=np.zeros(5),
            surface_movement=None,
        )
        assert run.switched.tolist() == [False, True, False, False, True]
        assert run.transit.tolist() == [False, True, False, False, True]
        assert run.travel == pytest.approx(0.12)

    def test_the_way_to_the_first_position_counts(self) -> None:
        still = np.full(3, 2.0)
        assert Trajectory(3.0, still, still, still, still, None).travel == 1.0

    def test_the_net_reward_is_reward_less_energy(self, episode: Episode) -> None:
        run = episode.trajectory
        way = float(np.abs(np.diff(run.position)).sum())
        assert episode.net_reward(0.3) == pytest.approx(episode.reward.sum() - 0.3 * way)
        assert way > 1.0
