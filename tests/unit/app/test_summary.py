"""The summary at the end of a run, as data and as a table."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from macontrol.controller.recording.tally import Percentiles, Tally
from macontrol.display.summary import print_summary, summarise
from support.sample_run import slot_record


def finished() -> Tally:
    tally = Tally(3.0)
    slots = ((3.0, 1.0), (3.06, 2.0), (3.12, 3.0), (3.12, 2.0))
    for slot, (position, reward) in enumerate(slots, start=1):
        tally.submit(
            slot_record(
                slot,
                position=position,
                reward=reward,
                target=3.12,
                switched=slot == 1,
                transit=slot == 1,
                shortfall=0.01,
                surface_movement=0.5,
                wake_s=2e-4,
                actuate_s=2e-4,
                measure_s=2e-4,
                decide_s=2e-4,
            )
        )
    return tally


def table(summary: dict[str, object]) -> str:
    console = Console(width=120, file=io.StringIO())
    with console.capture() as capture:
        print_summary(console, summary)
    return capture.get()


def outcome(tally: Tally, margin: float = 0.1) -> dict[str, object]:
    return summarise(tally, tally.theory(length=6.0, rho_max=0.06, margin=margin))


def test_the_numbers_come_from_the_tally() -> None:
    tally = finished()
    tally.late_arrivals, tally.late_rewards, tally.late_decisions, tally.missed = 1, 2, 3, 4
    tally.invalid, tally.stage_faults, tally.probe_faults, tally.refused = 5, 6, 7, 8
    summary = outcome(tally)
    assert summary["slots"] == 4
    assert summary["reward_per_slot"] == 2.0
    assert summary["travel"] == pytest.approx(0.12)
    assert summary["switches"] == 1
    assert summary["transit_share"] == 0.25
    late = ("late_arrivals", "late_rewards", "late_decisions", "missed_slots")
    assert [summary[name] for name in late] == [1, 2, 3, 4]
    assert "4 (50.0%)" in table(summary)
    bad = ("invalid_measurements", "stage_faults", "probe_faults", "refused_commands")
    assert [summary[name] for name in bad] == [5, 6, 7, 8]
    assert summary["wake_s"] == {"p50": 2e-4, "p99": 2e-4, "p99.9": 2e-4, "max": 2e-4}
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary


def test_a_run_without_slots_has_a_summary() -> None:
    summary = outcome(Tally(3.0))
    assert summary["reward_per_slot"] is None
    json.dumps(summary, allow_nan=False)
    assert "0 slots" in table(summary)


def test_the_table_shows_the_outcome() -> None:
    summary = outcome(finished()) | {
        "fixed_antenna_reward": 1.25,
        "gain_over_fixed": 0.6,
        "regret_per_slot": 0.5,
        "run_file": "run.sqlite",
        "records_lost": 0,
    }
    text = table(summary)
    for shown in (
        "4 slots",
        "2.0000",
        "1.2500",
        "+60.0%",
        "0.5000",
        "0.12 wavelengths",
        "25.0%",
        "200 µs / 200 µs / 200 µs",
        "Lemma 1",
        "Lemma 2",
        "Proposition 1",
        "holds",
        "run.sqlite",
    ):
        assert shown in text, f"{shown!r} is not in\n{text}"
    for hidden in ("VIOLATED", "records lost", "commands refused", "faults injected"):
        assert hidden not in text


def test_the_table_shows_faults() -> None:
    tally = finished()
    tally.refused = 9
    tally.longest_step = 0.5
    lost = {"records_lost": 17, "faults_injected": {"late-reward": 3, "stage-fault": 1}}
    text = table(outcome(tally) | lost)
    for shown in ("VIOLATED", "records lost", "17", "commands refused", "9", "3 late-reward"):
        assert shown in text


def test_a_policy_without_a_surface_has_no_surface_check() -> None:
    tally = Tally(3.0)
    tally.submit(slot_record())
    text = table(outcome(tally, margin=0.0))
    assert "Lemma 1" in text
    assert "Proposition 1" not in text
    assert "Lemma 2" not in text


def test_the_run_files_name_is_not_broken() -> None:
    path = "/a/state/folder/with/a/long/name" * 5 + "/[run].sqlite"
    assert f"run file: {path}\n" in table({**outcome(finished()), "run_file": path})


def test_on_a_virtual_clock_no_times_are_shown() -> None:
    tally = finished()
    assert "decide p50" in table(outcome(tally))
    tally.wake, tally.decide = Percentiles(), Percentiles()
    tally.wake.add(0.0)
    tally.decide.add(0.0)
    shown = table(outcome(tally))
    assert "wake-up p50" not in shown
    assert "decide p50" not in shown


@pytest.mark.parametrize("missed", [0, 3])
def test_the_remedy_for_missed_slots_is_shown_after_missed_slots(missed: int) -> None:
    tally = finished()
    tally.missed = missed
    summary = outcome(tally) | {"realtime": {"notice": ["a remedy"]}}
    assert ("a remedy" in table(summary)) == (missed > 0)
