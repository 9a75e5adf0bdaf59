"""Warm restart: the last run's window is taken up if it is fresh and of the same config."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from macontrol.config import Config, load_config
from macontrol.controller.policies import make_policy
from macontrol.controller.record import LateReward, SlotRecord
from macontrol.controller.runfile import (
    NoResume,
    Resume,
    RunFileRecorder,
    RunHeader,
    Sample,
    find_resume,
    header,
)
from macontrol.controller.survey import Survey

WALL, CLOCK = 1_700_000_000.0, 5000.0
CONFIG = load_config().replace(algorithm__window=20, physical__region_length=0.1 + 5.9)
SURVEY = Survey(np.linspace(0, 6, 100), np.random.default_rng(1).normal(3.0, 1.0, 100))
LAST_START = 40 * 0.005


def write(path: Path, slots: range, *, window: tuple[Sample, ...] = ()) -> Path:
    run = RunHeader.of(
        CONFIG,
        backend="sim",
        stage="sim",
        survey=SURVEY,
        sigma_f2=0.75,
        started_wall_s=WALL,
        started_clock_s=CLOCK,
        window=window,
    )
    file = RunFileRecorder(path, run)
    file.start()
    for slot in slots:
        blind = slot % 10 == 0
        file.hand_over(
            SlotRecord(
                slot=slot,
                start_s=CLOCK + slot * 0.005,
                position=slot / 100,
                commanded=None,
                on_time=True,
                reward=None if blind else slot / 7,
                uncertainty=None,
                invalid="gap" if blind else None,
                target=4.0,
                next_position=slot / 100 + 0.01,
                switched=False,
                transit=True,
                shortfall=None,
                surface_movement=None,
                wake_s=0.0,
                actuate_s=0.0,
                measure_s=0.0,
                decide_s=0.0,
            )
        )
    file.hand_over(LateReward(30, 30 / 7, None))
    file.close()
    return path


def resumed(path: Path, *, age_s: float = 0.03) -> Resume:
    found = find_resume(path, CONFIG, WALL + LAST_START + age_s)
    assert isinstance(found, Resume)
    return found


def refused(path: Path, config: Config = CONFIG, age_s: float = 0.03, **kwargs: object) -> str:
    found = find_resume(path, config, WALL + LAST_START + age_s, **kwargs)  # type: ignore[arg-type]
    assert isinstance(found, NoResume)
    return found.reason


def test_a_fresh_run_gives_back_its_window_and_place(tmp_path: Path) -> None:
    found = resumed(write(tmp_path / "run.sqlite", range(1, 41)))
    with_reward = [slot for slot in range(1, 41) if slot % 10 or slot == 30]
    assert list(found.samples) == [Sample(s, s / 100, s / 7) for s in with_reward[-20:]]
    assert (found.last_slot, found.position, found.next_position) == (40, 0.4, 0.4 + 0.01)
    assert (found.target, found.sigma_f2) == (4.0, 0.75)
    assert found.last_wall_s == pytest.approx(WALL + LAST_START, abs=1e-6)
    assert found.age_s == pytest.approx(0.03, abs=1e-6)
    np.testing.assert_array_equal(found.survey.position, SURVEY.position)
    np.testing.assert_array_equal(found.survey.reward, SURVEY.reward)


def test_the_posterior_is_the_one_that_the_run_had(tmp_path: Path) -> None:
    found = resumed(write(tmp_path / "run.sqlite", range(1, 41)))
    live, warm = make_policy(CONFIG, SURVEY), make_policy(CONFIG, found.survey)
    for slot in range(1, 41):
        if slot % 10 or slot == 30:
            live.observe(slot, slot / 100, slot / 7)
    for sample in found.samples:
        warm.observe(*sample)
    assert live.decide(40, 0.4) == warm.decide(40, 0.4)


def test_a_young_resumed_run_hands_on_the_window_it_took_over(tmp_path: Path) -> None:
    window = tuple(Sample(slot, 1.0, 2.0) for slot in range(10, 30))
    found = resumed(write(tmp_path / "run.sqlite", range(37, 41), window=window))
    assert [sample.slot for sample in found.samples] == [*range(13, 30), 37, 38, 39]


def test_a_run_is_fresh_for_w_slots(tmp_path: Path) -> None:
    path = write(tmp_path / "run.sqlite", range(1, 41))
    assert resumed(path, age_s=0.0999).last_slot == 40
    assert "old" in refused(path, age_s=0.1001)
    assert "in the future" in refused(path, age_s=-0.001)


def test_within_a_boot_steps_of_the_wall_clock_do_not_make_a_run_fresh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "run.sqlite", range(1, 41))
    set_back = WALL + LAST_START - 3600
    now = CLOCK + LAST_START
    assert isinstance(find_resume(path, CONFIG, set_back, now_clock_s=now + 0.05), Resume)
    assert isinstance(find_resume(path, CONFIG, set_back, now_clock_s=now + 0.15), NoResume)
    assert "old" in refused(path, age_s=0.2, now_clock_s=now + 0.05)  # the machine slept
    monkeypatch.setattr("macontrol.controller.runfile.resume.this_boot", lambda: "another")
    assert "in the future" in refused(path, age_s=-1, now_clock_s=now + 0.05)


@pytest.mark.parametrize(
    "change",
    [{"run__seed": 2}, {"algorithm__beta": 1.5}, {"physical__region_length": 6.0 + 1e-12}],
)
def test_another_config_begins_anew(tmp_path: Path, change: dict[str, float]) -> None:
    path = write(tmp_path / "run.sqlite", range(1, 41))
    assert "another config" in refused(path, CONFIG.replace(**change))


def test_what_is_not_there_or_of_another_stage_is_not_taken_up(tmp_path: Path) -> None:
    path = write(tmp_path / "run.sqlite", range(1, 41))
    assert "another stage" in refused(path, stage="/dev/ttyUSB0")
    assert isinstance(find_resume(path, CONFIG, WALL + LAST_START, stage="sim"), Resume)
    assert "no such file" in refused(tmp_path / "nothing.sqlite")
    assert "before its first slot" in refused(write(tmp_path / "empty.sqlite", range(0)))
    (tmp_path / "other").write_text("x")
    assert "not a run file" in refused(tmp_path / "other")


def test_a_header_survives_its_storage() -> None:
    before = RunHeader.of(
        CONFIG,
        backend="sim",
        stage="sim",
        survey=SURVEY,
        sigma_f2=0.1 + 0.2,
        started_wall_s=WALL + 0.1,
        started_clock_s=CLOCK + 0.7,
        clock="virtual",
        window=[Sample(1, 0.1 + 0.2, 1 / 3)],
        resumed_from="earlier.sqlite",
    )
    after = header.RunHeader.from_rows(dict(before.rows()))
    for field in dataclasses.fields(RunHeader):
        if field.name != "survey":
            assert getattr(after, field.name) == getattr(before, field.name)
    assert after.config == CONFIG
