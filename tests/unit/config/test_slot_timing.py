"""The phases of a slot."""

from __future__ import annotations

import pytest

from macontrol.config import load_config
from macontrol.config.model.slot_timing import SlotTiming, shortest_slot_s


def lab_timing() -> SlotTiming:
    return SlotTiming.from_shares(0.25, 0.11, guard_share=0.02, decision_share=0.06)


def test_the_phases_of_a_slot() -> None:
    timing = lab_timing()
    assert timing.actuation_end_s == pytest.approx(0.115)
    assert timing.measure_end_s == pytest.approx(0.235)
    assert timing.measure_s == pytest.approx(0.12)
    assert timing.decide_s == pytest.approx(0.015)


def test_a_config_has_the_timing_of_its_own_values() -> None:
    assert load_config(preset="lab-2g4-grbl").slot_timing == lab_timing()


@pytest.mark.parametrize(
    ("seconds", "expected_s"), [(0.001, 0.015), (0.03, 0.03), (0.0675, 0.0675), (1.0, 0.0675)]
)
def test_a_decision_takes_at_most_half_of_what_the_actuation_leaves(
    seconds: float, expected_s: float
) -> None:
    timing = lab_timing().with_decision_of(seconds)
    assert timing.decide_s == pytest.approx(expected_s)
    assert timing.actuation_end_s + timing.measure_s + timing.decide_s == pytest.approx(0.25)


def test_the_shortest_slot_has_the_requested_measuring_interval() -> None:
    slot_s = shortest_slot_s(0.11 + 0.2, guard_share=0.02, decision_share=0.06)
    timing = SlotTiming.from_shares(slot_s, 0.11, guard_share=0.02, decision_share=0.06)
    assert timing.measure_s == pytest.approx(0.2)
