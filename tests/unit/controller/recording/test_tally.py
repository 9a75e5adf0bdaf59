"""What a run adds up to, in constant memory."""

from __future__ import annotations

from math import isnan, nan

import numpy as np
import pytest

from macontrol.controller.recording.tally import Percentiles, Tally


class TestPercentiles:
    @pytest.mark.parametrize("percent", [1, 50, 90, 99, 99.9, 100])
    def test_they_are_those_of_numpy_to_two_percent(self, percent: float) -> None:
        durations = np.random.default_rng(1).lognormal(-8, 1.5, 20_000)
        stream = Percentiles()
        for duration in durations:
            stream.add(float(duration))
        exact = float(np.percentile(durations, percent, method="inverted_cdf"))
        assert exact * (1 - 1e-9) <= stream.at(percent) <= exact * 1.0201
        assert stream.largest == durations.max()
        assert stream.count == 20_000

    def test_of_nothing_there_are_none(self) -> None:
        assert isnan(Percentiles().at(50))

    def test_zero_and_very_long_are_counted_too(self) -> None:
        stream = Percentiles()
        for duration in (0.0, 0.0, 0.0, 1e-12, 1e5):
            stream.add(duration)
        assert stream.at(50) <= 1e-7
        assert stream.at(100) == pytest.approx(1e3, rel=0.05)  # the last bin holds all above
        assert stream.largest == 1e5

    def test_one_duration_is_every_percentile_of_itself(self) -> None:
        stream = Percentiles()
        stream.add(0.0123)
        assert [stream.at(p) for p in (1, 50, 99.9)] == [0.0123] * 3

    def test_memory_does_not_grow(self) -> None:
        stream = Percentiles()
        size = len(stream._bins)
        for number in range(100_000):
            stream.add(number * 1e-5)
        assert len(stream._bins) == size


class TestTally:
    def test_travel_and_longest_step(self) -> None:
        tally = Tally(3.0)
        for position in (3.0, 3.06, 3.0, 2.97):
            tally.stand_at(position, 6.0, tally.position)
        assert tally.travel == pytest.approx(0.15)
        assert tally.longest_step == pytest.approx(0.06)
        assert tally.farthest_off == 0.0
        assert tally.position == 2.97

    def test_a_step_is_counted_from_where_the_stage_was_found(self) -> None:
        tally = Tally(3.0)
        tally.stand_at(3.12, 6.0, 3.06)
        assert tally.travel == pytest.approx(0.12)
        assert tally.longest_step == pytest.approx(0.06)

    @pytest.mark.parametrize(("position", "off"), [(-0.5, 0.5), (6.25, 0.25), (6.0, 0.0)])
    def test_how_far_off_the_rail_it_was(self, position: float, off: float) -> None:
        tally = Tally(3.0)
        tally.stand_at(position, 6.0, 3.0)
        assert tally.farthest_off == off

    def test_rewards(self) -> None:
        tally = Tally(3.0)
        assert isnan(tally.mean_reward)
        for reward in (1.0, 2.0, 6.0):
            tally.see(reward)
        assert tally.mean_reward == 3.0
        assert tally.reward == 6.0
        assert tally.recent_reward == pytest.approx(3.0)

    def test_the_recent_reward_forgets_what_is_long_ago(self) -> None:
        tally = Tally(3.0)
        for reward in 100 * [1.0]:
            tally.see(reward)
        tally.see(2.0)
        assert tally.recent_reward == pytest.approx(1.01)
        for reward in 1000 * [2.0]:
            tally.see(reward)
        assert tally.recent_reward == pytest.approx(2.0, abs=1e-4)

    def test_switches_and_transit(self) -> None:
        tally = Tally(3.0)
        for target, position in ((3.0, 3.0), (4.0, 3.06), (4.0, 3.12), (3.12, 3.12)):
            tally.aim(target, position, nan)
        assert tally.switches == 2
        assert tally.transit == 2

    def test_the_largest_shortfall_ignores_slots_without_a_surface(self) -> None:
        tally = Tally(3.0)
        for shortfall in (nan, 0.25, 0.5, nan, 0.125):
            tally.aim(3.0, 3.0, shortfall)
        assert tally.largest_shortfall == 0.5

    def test_late_is_the_sum_of_the_slots_that_were_late(self) -> None:
        tally = Tally(3.0)
        tally.late_arrivals, tally.late_rewards = 1, 2
        tally.late_decisions, tally.missed = 4, 8
        assert tally.late == 13

    def test_homing_is_no_travel_of_the_policy_and_begins_a_new_leg(self) -> None:
        tally = Tally(3.0)
        tally.stand_at(3.06, 6.0, 3.0)
        tally.displace()
        tally.stand_at(0.06, 6.0, 0.0)
        tally.stand_at(0.12, 6.0, 0.06)
        assert tally.travel == pytest.approx(0.18)
        travel = tally.theory(length=6.0, rho_max=0.06, margin=0.1)["travel"]
        assert travel.bound == 12.0
        assert "N_sw + 1 + 1" in travel.statement

    def test_theory_holds_the_sums_against_the_bounds(self) -> None:
        tally = Tally(3.0)
        tally.stand_at(3.06, 6.0, 3.0)
        tally.aim(4.0, 3.12, 0.05)
        tally.surface_movement = 1.0
        verdicts = tally.theory(length=6.0, rho_max=0.06, margin=0.07)
        assert all(verdict.holds for verdict in verdicts.values())
        tally.stand_at(3.26, 6.0, 3.06)
        tally.aim(4.0, 3.32, 0.08)
        verdicts = tally.theory(length=6.0, rho_max=0.06, margin=0.07)
        assert not verdicts["reach"].holds
        assert not verdicts["persistence"].holds


def test_a_reward_taken_back_is_not_the_last_one_seen() -> None:
    tally = Tally(3.0)
    tally.see(2.0)
    tally.see(0.0)
    tally.withdraw(0.0)
    assert isnan(tally.reward)
    assert (tally.mean_reward, tally.invalid) == (2.0, 1)
