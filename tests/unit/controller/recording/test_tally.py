"""The statistics of a run, in constant memory."""

from __future__ import annotations

from math import isnan

import numpy as np
import pytest

from macontrol.controller.recording.events import EventKind
from macontrol.controller.recording.records import Event, Item, LateReward
from macontrol.controller.recording.tally import EventCounter, Percentiles, Tally
from support.sample_run import slot_record


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

    def test_there_are_no_percentiles_without_durations(self) -> None:
        assert isnan(Percentiles().at(50))

    def test_zero_and_very_long_durations_are_counted(self) -> None:
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


def tally_of(*items: Item) -> Tally:
    tally = Tally(3.0)
    for item in items:
        tally.submit(item)
    return tally


def slots_with(field: str, *values: object) -> list[Item]:
    """One record per value of a field."""
    return [slot_record(slot, **{field: value}) for slot, value in enumerate(values, start=1)]


def event(kind: EventKind, value: float | None = None) -> Event:
    return Event(7, 0.0, kind, "", value)


class TestTally:
    def test_travel_and_longest_step(self) -> None:
        tally = tally_of(*slots_with("position", 3.0, 3.06, 3.0, 2.97))
        assert tally.travel == pytest.approx(0.15)
        assert tally.longest_step == pytest.approx(0.06)
        assert (tally.lowest, tally.highest, tally.position) == (2.97, 3.06, 2.97)
        assert (tally.slot, tally.slots) == (4, 4)

    def test_the_way_to_the_first_slot_is_not_travel(self) -> None:
        assert tally_of(slot_record(position=1.0)).travel == 0.0

    def test_a_step_is_counted_from_where_the_stage_was_found(self) -> None:
        tally = tally_of(slot_record(1), slot_record(2, position=3.12, origin=3.06))
        assert tally.travel == pytest.approx(0.12)
        assert tally.longest_step == pytest.approx(0.06)

    @pytest.mark.parametrize(("position", "off"), [(-0.5, 0.5), (6.25, 0.25), (6.0, 0.0)])
    def test_the_region_is_checked_with_the_distance_off_the_rail(
        self, position: float, off: float
    ) -> None:
        tally = tally_of(slot_record(position=position))
        region = tally.theory(length=6.0, rho_max=0.06, margin=0.1)["region"]
        assert (region.value, region.holds) == (off, off == 0)

    def test_rewards(self) -> None:
        assert isnan(Tally(3.0).mean_reward)
        tally = tally_of(*slots_with("reward", 1.0, None, 2.0), LateReward(2, 6.0, None))
        assert (tally.rewards, tally.mean_reward, tally.reward) == (3, 3.0, 6.0)
        assert tally.recent_reward == pytest.approx(3.0)

    def test_the_recent_reward_forgets_old_rewards(self) -> None:
        tally = tally_of(*slots_with("reward", *100 * [1.0], 2.0))
        assert tally.recent_reward == pytest.approx(1.01)
        for record in slots_with("reward", *1000 * [2.0]):
            tally.submit(record)
        assert tally.recent_reward == pytest.approx(2.0, abs=1e-4)

    def test_switches_and_transit(self) -> None:
        tally = tally_of(
            *slots_with("switched", False, True, False, True),
            *slots_with("transit", False, True, True, True),
        )
        assert (tally.switches, tally.transit) == (2, 3)

    def test_the_largest_shortfall_ignores_slots_without_a_surface(self) -> None:
        assert isnan(tally_of(slot_record()).largest_shortfall)
        tally = tally_of(*slots_with("shortfall", None, 0.25, 0.5, None, 0.125))
        assert tally.largest_shortfall == 0.5

    def test_the_movement_of_the_surface_is_the_sum_over_the_slots(self) -> None:
        assert tally_of(slot_record()).surface_movement is None
        assert tally_of(*slots_with("surface_movement", 0.0, 0.25, 0.5)).surface_movement == 0.75

    @pytest.mark.parametrize("phase", ["wake", "actuate", "measure", "decide"])
    def test_every_phase_has_its_durations(self, phase: str) -> None:
        tally = tally_of(*slots_with(f"{phase}_s", 0.25, 0.5))
        durations = getattr(tally, phase)
        assert (durations.count, durations.largest) == (2, 0.5)

    @pytest.mark.parametrize(
        ("kind", "count"),
        [
            (EventKind.LATE_ARRIVAL, "late_arrivals"),
            (EventKind.LATE_REWARD, "late_rewards"),
            (EventKind.LATE_DECISION, "late_decisions"),
            (EventKind.INVALID, "invalid"),
            (EventKind.REFUSED, "refused"),
            (EventKind.STAGE_FAULT, "stage_faults"),
            (EventKind.PROBE_FAULT, "probe_faults"),
        ],
    )
    def test_events_are_counted_by_kind(self, kind: EventKind, count: str) -> None:
        counts = vars(tally_of(event(kind, 5.0), event(kind)))
        unchanged = vars(Tally(3.0))
        changed = {name for name, value in counts.items() if _differs(value, unchanged[name])}
        assert changed == {count}
        assert counts[count] == 2

    def test_missed_slots_are_the_sum_of_the_events(self) -> None:
        assert tally_of(event(EventKind.MISSED, 3.0), event(EventKind.MISSED, 1.0)).missed == 4

    def test_late_is_the_sum_of_the_slots_that_were_late(self) -> None:
        tally = tally_of(
            event(EventKind.LATE_ARRIVAL),
            event(EventKind.LATE_REWARD),
            *2 * [event(EventKind.LATE_DECISION)],
            event(EventKind.MISSED, 8.0),
        )
        assert tally.late == 11

    def test_the_way_from_a_homing_is_not_travel_and_begins_a_new_leg(self) -> None:
        tally = tally_of(
            slot_record(1),
            slot_record(2, position=3.06),
            slot_record(3, position=0.06, origin=0.0, homings=1),
            slot_record(4, position=0.12),
        )
        assert tally.travel == pytest.approx(0.18)
        assert tally.displaced == 1
        travel = tally.theory(length=6.0, rho_max=0.06, margin=0.1)["travel"]
        assert travel.bound == 12.0

    def test_theory_compares_the_sums_with_the_bounds(self) -> None:
        tally = tally_of(
            slot_record(1),
            slot_record(
                2, position=3.06, switched=True, transit=True, shortfall=0.05, surface_movement=1.0
            ),
        )
        verdicts = tally.theory(length=6.0, rho_max=0.06, margin=0.07)
        assert all(verdict.holds for verdict in verdicts.values())
        tally.submit(slot_record(3, position=3.26, transit=True, shortfall=0.08))
        verdicts = tally.theory(length=6.0, rho_max=0.06, margin=0.07)
        assert not verdicts["reach"].holds
        assert not verdicts["persistence"].holds

    def test_a_withdrawn_reward_does_not_count(self) -> None:
        tally = tally_of(
            *slots_with("reward", 2.0, 0.5), LateReward(2, None, None, "no-signal", withdrawn=0.5)
        )
        assert isnan(tally.reward)
        assert (tally.rewards, tally.mean_reward, tally.invalid) == (1, 2.0, 1)

    def test_the_reason_of_a_reward_that_never_arrived_changes_nothing(self) -> None:
        """An event counts it as invalid."""
        tally = tally_of(slot_record(reward=2.0), LateReward(1, None, None, "gap"))
        assert (tally.rewards, tally.invalid) == (1, 0)


def _differs(value: object, other: object) -> bool:
    if isinstance(value, Percentiles):
        return False
    return not (value == other or (value != value and other != other))  # NaN


def test_events_are_counted_under_their_kind() -> None:
    counter = EventCounter()
    for item in (slot_record(), event(EventKind.STOP), event(EventKind.MISSED, 3.0)):
        counter.submit(item)
    assert counter.counts == {"stop": 1, "missed-slots": 1}
