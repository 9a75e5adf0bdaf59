"""Which slot begins when, and which ones are missed."""

from __future__ import annotations

import pytest

from macontrol.controller.runtime.schedule import Schedule


def test_boundaries_are_multiples_of_the_slot_from_the_first_one() -> None:
    schedule = Schedule(0.25, 100.0, first_slot=7)
    for number in range(5):
        assert (schedule.slot, schedule.start_s) == (7 + number, 100.0 + 0.25 * number)
        schedule.advance()


@pytest.mark.parametrize(("late_s", "missed"), [(0.0, 1), (0.1, 1), (0.25, 2), (2.6, 11)])
def test_slots_that_have_begun_are_skipped(late_s: float, missed: int) -> None:
    schedule = Schedule(0.25, 100.0)
    assert schedule.skip(late_s) == missed
    assert schedule.slot == 1 + missed
    assert schedule.start_s > 100.0 + late_s


def test_missed_slots_do_not_count_towards_a_number_of_slots() -> None:
    schedule = Schedule(0.25, 100.0, slots=2)
    schedule.skip(10.0)
    assert not schedule.is_over
    schedule.advance()
    assert not schedule.is_over
    schedule.advance()
    assert schedule.is_over


def test_no_more_slots_are_missed_than_the_duration_has() -> None:
    schedule = Schedule(0.25, 100.0, first_slot=5, duration_s=1.0)
    schedule.advance()
    assert schedule.skip(100.0) == 3
    assert schedule.is_over


@pytest.mark.parametrize(("duration_s", "slots"), [(0.25, 1), (0.3, 2), (0.5, 2), (0.75, 3)])
def test_part_of_a_slot_is_a_slot(duration_s: float, slots: int) -> None:
    schedule = Schedule(0.25, 100.0, duration_s=duration_s)
    run = 0
    while not schedule.is_over:
        schedule.advance()
        run += 1
    assert run == slots
