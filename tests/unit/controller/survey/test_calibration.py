"""The estimates of a calibration, on arrays whose law is known, and the walk that measures them."""

from __future__ import annotations

from dataclasses import replace
from math import inf, isfinite, log, sqrt
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import multivariate_normal, t

from macontrol.config import Config, load_config
from macontrol.config.model.errors import UsageError
from macontrol.config.sections.kernel import Kernel
from macontrol.controller.policies.kernel import DampedCosine, StationaryKernel
from macontrol.controller.recording.records import Recorder
from macontrol.controller.runtime.clock import VirtualClock
from macontrol.controller.runtime.stop import StopToken
from macontrol.controller.survey.calibration import maps, structure
from macontrol.controller.survey.calibration.advice import Advice, advise, slot_advice
from macontrol.controller.survey.calibration.estimate import Estimate, jackknife
from macontrol.controller.survey.calibration.findings import Findings, all_walks, find
from macontrol.controller.survey.calibration.kernel_fit import fit, form_of
from macontrol.controller.survey.calibration.likelihood import Block, Covariance
from macontrol.controller.survey.calibration.plan import MINUTES, Plan, plan_for
from macontrol.controller.survey.calibration.samples import HOP, STAND, WALK, Sample, Samples
from macontrol.controller.survey.calibration.walking import CalibrationWalk, Progress
from macontrol.hal import Arrival
from macontrol.sim.bench.simulated import SimulatedBench

Floats = NDArray[np.float64]

SLOT_S = 0.01
POSITIONS = np.linspace(0.0, 6.0, 61)


def measured(config: Config, minutes: float, seed: int = 3) -> tuple[Plan, Samples]:
    plan, clock = plan_for(config, minutes), VirtualClock()
    bench = SimulatedBench(config, clock, seed=seed)
    walk = CalibrationWalk(config, bench, clock, Recorder(), stop=StopToken())
    return plan, walk.run(plan)


def field(rng: np.random.Generator, slots: int, tau_slots: float, length: float) -> Floats:
    """A field of variance 1 over the rail and time: exponential in time, SE along the rail."""
    lag = POSITIONS[:, None] - POSITIONS[None, :]
    root = np.linalg.cholesky(np.exp(-0.5 * (lag / length) ** 2) + 1e-9 * np.eye(len(lag)))
    keep = np.exp(-1 / tau_slots)
    rows = [root @ rng.standard_normal(len(lag))]
    for _ in range(slots - 1):
        fresh = root @ rng.standard_normal(len(lag))
        rows.append(keep * rows[-1] + sqrt(1 - keep**2) * fresh)
    return np.array(rows)


def walked(
    rewards: Floats, noise: float, rng: np.random.Generator, shift: float = 0.0, cycles: int = 8
) -> Samples:
    """Samples of a map (slots × positions): per cycle two walks up and down, hops, and a stand."""
    samples: list[Sample] = []
    slot, each = 0, len(rewards) // cycles

    def take(part: int, cycle: int, group: int, index: int, direction: int, at: float) -> None:
        nonlocal slot
        true = np.interp(at + direction * shift / 2, POSITIONS, rewards[slot])
        reward = float(true + noise * rng.standard_normal())
        time = (slot + 0.5) * SLOT_S
        samples.append(
            Sample(
                *(time, slot, at, reward, noise, inf, 0.0, part, cycle, group, index, direction),
                delay_s=SLOT_S * (1 + index % 4),
            )
        )
        slot += 1

    for cycle in range(cycles):
        for group in range(4):
            order = range(61) if group % 2 == 0 else range(60, -1, -1)
            for index in order:
                take(WALK, cycle, group, index, 1 if group % 2 == 0 else -1, POSITIONS[index])
        for hop in range(4):
            for index in range(4):
                take(HOP, cycle, hop, index, 1, 3.0)
        place = 6.0 * (cycle + 0.5) / cycles
        count = 0
        while slot < (cycle + 1) * each:
            take(STAND, cycle, 0, count, 0, place)
            count += 1
    return Samples.of(samples, {})


class TestIntervals:
    def test_the_jackknife_of_a_mean_is_the_interval_of_student(self) -> None:
        values = [1.0, 4.0, 2.0, 7.0, 3.0]
        (found,) = jackknife(values, lambda part: np.array([np.mean(part)]))
        error = np.std(values, ddof=1) / sqrt(5)
        half = t.ppf(0.975, 4) * error
        assert (found.value, found.low, found.high) == pytest.approx((3.4, 3.4 - half, 3.4 + half))

    def test_the_ends_for_a_variance_are_as_far_as_their_own_error(self) -> None:
        found = Estimate(0.5, 0.1, 0.9).of_a_variance(0.8)
        for end in (found.low, found.high):
            error = 0.4 * (0.8 + end - found.value) / 0.8
            assert abs(end - found.value) == pytest.approx(error)
        assert Estimate(0.5, -0.5, 1.5).of_a_variance(0.8).high == inf

    def test_the_interval_of_a_variance_is_missed_on_both_sides(self) -> None:
        rng, above, below = np.random.default_rng(12), 0, 0
        for _ in range(400):
            (found,) = jackknife(
                list(rng.standard_normal(30)), lambda part: np.array([np.var(part, ddof=1)])
            )
            interval = found.of_a_variance(found.value)
            above, below = above + (interval.low > 1), below + (interval.high < 1)
        assert above + below < 0.08 * 400
        assert below < 0.05 * 400  # 37 of a symmetric one: too low an estimate has too low an error

    def test_without_degrees_of_freedom_nothing_is_excluded(self) -> None:
        assert Estimate.around(1.0, 0.1, 0).holds(1e9)


class TestStructure:
    def test_half_squares_are_those_of_all_pairs(self) -> None:
        blocks = [np.array([1.0, 3.0, np.nan, 2.0]), np.array([0.0, 1.0])]
        # lag 1: (1→3), (0→1); lag 2: (3→2)
        expected = [0.5 * (4 + 1) / 2, 0.5 * 1]
        values, count = structure.half_squares(blocks, 2)
        assert values == pytest.approx(expected)
        assert count.tolist() == [2, 1]

    def test_lags_with_few_pairs_count_less(self) -> None:
        rng = np.random.default_rng(11)
        found = [structure.nugget(list(rng.standard_normal((20, 17))), 16) for _ in range(200)]
        assert np.mean(found) == pytest.approx(1.0, abs=0.03)
        assert np.std(found) < 0.095  # 0.104 if all lags count the same

    @pytest.mark.parametrize("drift", [0.0, 0.02, 0.1])
    def test_the_noise_is_separated_from_a_random_walk(self, drift: float) -> None:
        rng = np.random.default_rng(1)
        blocks = [
            np.cumsum(drift * rng.standard_normal(600)) + 0.3 * rng.standard_normal(600)
            for _ in range(20)
        ]
        assert structure.nugget(blocks, 10) == pytest.approx(0.09, rel=0.05)

    def test_the_structure_in_time_is_that_of_the_law(self) -> None:
        rng = np.random.default_rng(2)
        rewards = 2.0 + 0.8 * field(rng, 8000, 150.0, 0.3)
        samples = walked(rewards, 0.2, rng)
        found = find(samples, SLOT_S, 8000 * SLOT_S)
        law = 2 * 0.64 * (1 - np.exp(-found.in_time.lag / (150 * SLOT_S)))
        near = found.in_time.lag < 3 * 150 * SLOT_S
        assert np.abs(found.in_time.value - law)[near].max() < 0.25
        assert found.coherence_s.holds(150 * SLOT_S * log(2))
        assert found.coherence_length.holds(0.3 * sqrt(2 * log(2)))
        assert found.noise.holds(0.2)
        assert found.sigma_f.holds(float(rewards.std()))
        assert found.mean.holds(float(rewards.mean()))
        drift = float(np.sqrt(np.mean((rewards[10:] - rewards[:-10]) ** 2)))
        assert found.drift.holds(drift)
        assert found.stated_noise == pytest.approx(0.2)

    def test_a_site_that_does_not_change_has_no_end_of_its_coherence(self) -> None:
        rng = np.random.default_rng(3)
        rewards = np.repeat(field(rng, 1, 10.0, 0.3), 4000, axis=0)
        found = find(walked(rewards, 0.1, rng), SLOT_S, 4000 * SLOT_S)
        assert found.coherence_s.value == inf
        assert 0 < found.coherence_s.low < 10
        assert found.drift.low == 0.0


class TestMaps:
    @pytest.mark.parametrize("shift", [0.0, 0.06, -0.12])
    def test_backlash_is_found_beside_drift(self, shift: float) -> None:
        rng = np.random.default_rng(4)
        rewards = field(rng, 4000, 800.0, 0.4)
        found = maps.backlash(all_walks(walked(rewards, 0.1, rng, shift)))
        assert found.holds(shift)
        assert found.high - found.low < 0.12

    def test_backlash_is_not_larger_than_it_is_where_fringes_are_short(self) -> None:
        """Three points of a fringe of 0.5 wavelengths have 3/4 of its slope, five have 93 %."""
        rng = np.random.default_rng(13)
        samples = walked(np.zeros((4000, 61)), 0.0, rng)
        fringes = np.cos(2 * np.pi * (samples.position + 0.01 * samples.direction) / 0.5)
        noise = 0.02 * rng.standard_normal(len(samples))
        found = maps.backlash(all_walks(replace(samples, reward=fringes + noise)))
        assert found.value == pytest.approx(0.02, rel=0.12)

    def test_a_transient_after_a_move_shows(self) -> None:
        rng = np.random.default_rng(5)
        samples = walked(np.zeros((4000, 61)), 0.1, rng)
        _, squares, still = maps.settling(samples)
        assert still.low <= 0.0
        assert squares == pytest.approx(0.02, rel=0.6)
        first = (samples.part == HOP) & (samples.index == 0)
        samples.reward[first] += 0.5
        assert maps.settling(samples)[2].low > 0.1


class TestLikelihood:
    KERNEL = StationaryKernel(0.2, (DampedCosine(0.5, 1.3, 2.0), DampedCosine(0.3, inf, 1.0)))

    def block(self, seed: int, count: int = 2) -> Block:
        rng = np.random.default_rng(seed)
        rewards = field(rng, 3904, 300.0, 0.3)
        return Block.of(all_walks(walked(rewards, 0.1, rng))[:count], POSITIONS, 0.0)

    def test_it_is_that_of_the_normal_law(self) -> None:
        block = self.block(1)
        covariance = Covariance(self.KERNEL, 0.7, 1.5, 0.04)
        at = np.concatenate((POSITIONS, POSITIONS[::-1]))
        time = (np.arange(122) + 0.5) * SLOT_S
        matrix = 0.7 * self.KERNEL(at[:, None] - at[None, :])
        matrix *= np.exp(-np.abs(time[:, None] - time[None, :]) / 1.5)
        matrix += 0.04 * np.eye(122)
        expected = multivariate_normal(np.zeros(122), matrix).logpdf(block.reward)
        assert block.log_likelihood(covariance) == pytest.approx(float(expected), rel=1e-9)

    def test_held_out_densities_are_conditional(self) -> None:
        block, covariance = self.block(2), Covariance(self.KERNEL, 0.7, 1.5, 0.04)
        matrix, total = block.matrix(covariance), 0.0
        for fold in range(4):
            out = block.fold == fold
            weights = np.linalg.solve(matrix[np.ix_(~out, ~out)], matrix[np.ix_(~out, out)]).T
            mean = weights @ block.reward[~out]
            rest = matrix[np.ix_(out, out)] - weights @ matrix[np.ix_(~out, out)]
            total += float(multivariate_normal(mean, rest).logpdf(block.reward[out]))
        assert block.held_out(covariance) == pytest.approx(total / len(block), rel=1e-6)

    def test_a_fit_finds_the_law_of_the_samples(self) -> None:
        blocks = [self.block(seed) for seed in range(6)]
        form = form_of("se", Kernel(), 1.0, 3.0, 0.01)
        found = fit(form, blocks)
        assert found.intervals["se_length"].holds(0.3)
        assert found.settings["se_length"] == pytest.approx(0.3, rel=0.15)
        assert found.intervals["correlation_s"].holds(3.0)
        assert np.std(found.residuals) == pytest.approx(1.0, abs=0.15)
        other = fit(form_of("physics", Kernel(), 1.0, 3.0, 0.01), blocks)
        assert found.better_than(other).high > 0


class TestPlan:
    @pytest.mark.parametrize("minutes", MINUTES)
    def test_a_calibration_ends_with_the_minutes(self, minutes: int) -> None:
        plan = plan_for(load_config(), minutes)
        assert plan.duration_s == pytest.approx(60 * minutes)
        assert len(set(plan.places)) == plan.cycles
        assert plan.positions[[0, -1]] == pytest.approx([0.0, 6.0])

    def test_a_rail_that_is_too_slow_says_what_would_do(self) -> None:
        config = load_config(preset="lab-2g4-grbl")
        with pytest.raises(UsageError) as caught:
            plan_for(config, 2)
        assert caught.value.fix == "choose --minutes 5"
        with pytest.raises(UsageError, match="takes"):
            plan_for(config.replace(physical__slot_duration_s=60.0), 15)


class TestWalk:
    def test_it_walks_in_both_directions_hops_and_stands(self) -> None:
        config = load_config()
        plan, samples = measured(config, 0.2)
        walks = all_walks(samples)
        assert len(walks) == 2 * plan.pairs * plan.cycles
        for walk in walks:
            assert walk.position == pytest.approx(plan.positions[walk.index], abs=1e-9)
            assert (np.diff(walk.index) == walk.direction[0]).all()
        stands = [samples.stand(cycle) for cycle in samples.cycles]
        assert [stand.position[0] for stand in stands] == pytest.approx(plan.places)
        assert all(np.ptp(stand.position) == 0 for stand in stands)
        assert np.diff(samples.slot).min() == 1
        assert samples.time_s.max() < plan.duration_s
        assert np.unique(samples.delay_s[samples.part == HOP]).size > 1

    def test_no_command_exceeds_stroke_or_region(self, monkeypatch: pytest.MonkeyPatch) -> None:
        config = load_config(preset="lab-2g4-grbl")
        clock, commands = VirtualClock(), []
        bench = SimulatedBench(config, clock, seed=3)
        move = bench.stage.move_to

        def spy(position_mm: float, deadline_s: float) -> Arrival:
            commands.append((bench.stage.position_now(), position_mm))
            return move(position_mm, deadline_s)

        monkeypatch.setattr(bench.stage, "move_to", spy)
        walk = CalibrationWalk(config, bench, clock, Recorder(), stop=StopToken())
        walk.run(plan_for(config, 5))
        start, end = np.array(commands).T
        assert np.abs(end - start).max() <= config.physical.stroke_mm + 1e-6
        assert end.min() >= 0
        assert end.max() <= config.rail_mm + 1e-6

    def test_a_stop_ends_it_and_progress_counts_down(self) -> None:
        config, stop, seen = load_config(), StopToken(), []

        def on_progress(done: Progress) -> None:
            seen.append(done.left_s)
            if len(seen) == 3:
                stop.request()

        clock = VirtualClock()
        bench = SimulatedBench(config, clock, seed=3)
        walk = CalibrationWalk(config, bench, clock, Recorder(), stop=stop, on_progress=on_progress)
        plan = plan_for(config, 2)
        samples = walk.run(plan)
        assert seen == sorted(seen, reverse=True)
        assert len(seen) == 3
        assert len(samples) <= 3 * len(plan.positions) * 2


class TestAdvice:
    def advice(self, rewards: Floats, noise: float, **changes: Any) -> tuple[Advice, Findings]:
        rng = np.random.default_rng(6)
        samples = walked(rewards, noise, rng)
        config = load_config().replace(physical__slot_duration_s=SLOT_S, **changes)
        found = find(samples, SLOT_S, len(rewards) * SLOT_S)
        block = Block.of(all_walks(samples)[:2], POSITIONS, 0.0)
        fits = [fit(form_of("se", Kernel(), 1.0, 3.0, 0.01), [block, block])]
        return advise(config, samples, found, fits), found

    def settings(self, advice: Advice) -> dict[str, Any]:
        return {setting.path: setting.value for setting in advice.settings}

    def test_the_settings_follow_from_the_findings(self) -> None:
        rewards = 2 + field(np.random.default_rng(7), 4000, 200.0, 0.2)
        advice, found = self.advice(rewards, 0.2)
        settings = self.settings(advice)
        assert settings["reward.offset"] == "survey"
        assert settings["reward.noise_level"] == pytest.approx(
            found.noise.value / load_config().replace(physical__slot_duration_s=SLOT_S).g_max,
            rel=0.01,
        )
        assert settings["algorithm.ridge"] == pytest.approx(found.noise.value**2, rel=0.01)
        assert not advice.warnings

    @pytest.mark.parametrize(
        ("coherence_s", "slot_s", "verdict"),
        [
            (Estimate(20.0), 0.25, "keep physical.slot_duration_s = 0.25: "),
            (Estimate(2.0), 0.25, "shorten physical.slot_duration_s = 0.25: "),
            (Estimate(0.9), 0.25, "use a faster stage"),
            (Estimate(inf, 5.0, inf), 0.25, "at least 20 slots"),
            (Estimate(inf, 0.0, inf), 0.25, "choose more --minutes"),
        ],
    )
    def test_a_slot_length_is_recommended(
        self, coherence_s: Estimate, slot_s: float, verdict: str
    ) -> None:
        physical = load_config(preset="lab-5g8-zaber").physical
        assert (physical.slot_duration_s, physical.actuation_time_s) == (slot_s, 0.1)
        text = slot_advice(physical, coherence_s)
        assert verdict in text
        if isfinite(coherence_s.value):
            assert f"up to {coherence_s.value / 10:.2g} s" in text

    @pytest.mark.parametrize(
        ("tau_slots", "length", "noise", "word"),
        [
            (0.5, 0.2, 0.1, "longer than the coherence time"),
            (5.0, 0.2, 0.1, "The coherence time"),
            (300.0, 3.0, 0.1, "shorter than two fringes"),
        ],
    )
    def test_a_site_that_breaks_an_assumption_is_called_so(
        self, tau_slots: float, length: float, noise: float, word: str
    ) -> None:
        rewards = field(np.random.default_rng(8), 4000, tau_slots, length)
        advice, _ = self.advice(rewards, noise)
        assert any(word in warning for warning in advice.warnings)

    def test_a_reward_that_does_not_depend_on_the_position(self) -> None:
        advice, _ = self.advice(np.full((4000, 61), 2.0), 0.2)
        assert "does not depend on the position" in advice.warnings[0]

    def test_a_receiver_at_its_limits(self) -> None:
        rewards = field(np.random.default_rng(9), 4000, 300.0, 0.3)
        assert "saturates" in self.advice(np.minimum(rewards, 0.5), 0.0)[0].warnings[0]
        assert "noise floor" in self.advice(np.maximum(rewards, 0.0), 0.0)[0].warnings[0]

    def test_a_carriage_that_loses_steps(self) -> None:
        rng = np.random.default_rng(10)
        still = field(rng, 1, 10.0, 0.3)[0]
        # At rest nothing changes; each pass along the rail finds the map elsewhere.
        rewards = np.array([np.roll(still, 13 * (slot // 61)) for slot in range(4000)])
        for cycle in range(8):
            rewards[cycle * 500 + 244 : (cycle + 1) * 500] = still
        advice, _ = self.advice(rewards, 0.05)
        assert any("does not come back" in warning for warning in advice.warnings)
