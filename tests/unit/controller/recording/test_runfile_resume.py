"""Warm restart: a run uses the last run's window if it is fresh and of the same config."""

import dataclasses
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from macontrol.config import Config
from macontrol.controller.policies.registry import make_policy
from macontrol.controller.recording.runfile import (
    NoResume,
    Resume,
    RunHeader,
    Sample,
    find_resume,
    find_resume_among,
    header,
    set_aside,
)
from macontrol.controller.survey.samples import Survey
from support.sample_run import (
    BENCH,
    CLOCK,
    CONFIG,
    LAST_START,
    SURVEY,
    WALL,
    slot_record,
    start_run,
    write_run,
)


def resumed(path: Path, *, age_s: float = 0.03) -> Resume:
    found = find_resume(path, CONFIG, WALL + LAST_START + age_s)
    assert isinstance(found, Resume)
    return found


def refused(path: Path, config: Config = CONFIG, age_s: float = 0.03, **kwargs: object) -> str:
    found = find_resume(path, config, WALL + LAST_START + age_s, **kwargs)  # type: ignore[arg-type]
    assert isinstance(found, NoResume)
    return found.reason


def test_a_fresh_run_returns_its_window_and_position(tmp_path: Path) -> None:
    found = resumed(write_run(tmp_path / "run.sqlite", range(1, 41)))
    with_reward = [slot for slot in range(1, 41) if slot % 10 or slot == 30]
    assert list(found.samples) == [Sample(s, s / 100, s / 7) for s in with_reward[-20:]]
    assert (found.last_slot, found.position, found.next_position) == (40, 0.4, 0.4 + 0.01)
    assert found.target == 4.0
    assert found.last_wall_s == pytest.approx(WALL + LAST_START, abs=1e-6)
    assert found.age_s == pytest.approx(0.03, abs=1e-6)
    np.testing.assert_array_equal(found.survey.position, SURVEY.position)
    np.testing.assert_array_equal(found.survey.reward, SURVEY.reward)


def test_the_posterior_is_the_one_that_the_run_had(tmp_path: Path) -> None:
    found = resumed(write_run(tmp_path / "run.sqlite", range(1, 41)))
    live, warm = make_policy(CONFIG, SURVEY), make_policy(CONFIG, found.survey)
    for slot in range(1, 41):
        if slot % 10 or slot == 30:
            live.observe(slot, slot / 100, slot / 7)
    for sample in found.samples:
        warm.observe(*sample)
    assert live.decide(40, 0.4) == warm.decide(40, 0.4)


def test_it_starts_from_the_last_survey_within_the_run(tmp_path: Path) -> None:
    """The walk's own samples are in that survey."""
    later = Survey(SURVEY.position, SURVEY.reward[::-1] * 2, 0.01, walked_wall_s=WALL + 0.1)
    file = start_run(tmp_path / "run.sqlite", identity=BENCH)
    for slot in range(1, 41):
        changes = {"position": 1.0, "reward": slot / 7}
        file.submit(slot_record(slot, **changes))
        if slot == 28:
            file.add_resurvey(slot, later)
    file.close()
    found = resumed(tmp_path / "run.sqlite")
    np.testing.assert_array_equal(found.survey.reward, later.reward)
    assert found.survey.sigma_f2(CONFIG) == later.sigma_f2(CONFIG) != SURVEY.sigma_f2(CONFIG)
    assert found.survey.walked_wall_s == WALL + 0.1
    assert [sample.slot for sample in found.samples] == list(range(29, 41))


def test_a_later_survey_of_another_rail_is_refused(tmp_path: Path) -> None:
    file = start_run(tmp_path / "run.sqlite", identity=BENCH)
    file.submit(slot_record(1))
    file.add_resurvey(1, Survey(SURVEY.position + 1.0, SURVEY.reward))
    file.close()
    assert "its survey does not fit this rail" in refused(tmp_path / "run.sqlite")


def test_a_short_resumed_run_passes_on_the_window_it_resumed(tmp_path: Path) -> None:
    window = tuple(Sample(slot, 1.0, 2.0) for slot in range(10, 30))
    found = resumed(write_run(tmp_path / "run.sqlite", range(37, 41), window=window))
    assert [sample.slot for sample in found.samples] == [*range(13, 30), 37, 38, 39]


@pytest.mark.fault("run-dies-at-noise-floor")
@pytest.mark.parametrize(
    ("backend", "zeros", "last"),
    [("serial", 5, 31), ("serial", 0, 39), ("sim", 5, 39)],
)
def test_slots_at_the_noise_floor_before_a_kill_are_not_resumed(
    tmp_path: Path, backend: str, zeros: int, last: int
) -> None:
    """They may be the beginning of a loss of signal that the killed run did not withdraw."""
    path = write_run(tmp_path / "run.sqlite", range(1, 41))
    with closing(sqlite3.connect(path)) as run, run:
        run.execute("UPDATE header SET value = ? WHERE key = 'backend'", (f'"{backend}"',))
        run.execute("UPDATE slots SET reward = 0 WHERE slot > ? AND slot < 40", (40 - 1 - zeros,))
    assert max(sample.slot for sample in resumed(path).samples) == last


@pytest.mark.fault("resume-with-transmitter-on")
@pytest.mark.parametrize(
    ("values", "floor"),
    [
        ([], None),
        ([-40.5], -40.5),
        ([-40.5, None], -40.5),
        ([-40.5, -41.0], -41.0),
        ([-300.0], None),
        (["loud"], None),
    ],
)
def test_a_run_returns_its_last_noise_floor(
    tmp_path: Path, values: list[object], floor: float | None
) -> None:
    path = write_run(tmp_path / "run.sqlite", range(1, 41))
    with closing(sqlite3.connect(path)) as run, run:
        rows = [(40, 1.0, "noise-floor", "in use", value) for value in values]
        insert = "INSERT INTO events (slot, time_s, kind, detail, value) VALUES (?, ?, ?, ?, ?)"
        run.executemany(insert, rows)
    assert resumed(path).noise_floor_dbfs == floor


def test_a_run_is_fresh_for_w_slots(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run.sqlite", range(1, 41))
    assert resumed(path, age_s=0.0999).last_slot == 40
    assert "old" in refused(path, age_s=0.1001)
    assert "in the future" in refused(path, age_s=-0.001)


def test_within_a_boot_steps_of_the_wall_clock_do_not_make_a_run_fresh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_run(tmp_path / "run.sqlite", range(1, 41))
    set_back = WALL + LAST_START - 3600
    now = CLOCK + LAST_START
    assert isinstance(find_resume(path, CONFIG, set_back, now_clock_s=now + 0.05), Resume)
    assert isinstance(find_resume(path, CONFIG, set_back, now_clock_s=now + 0.15), NoResume)
    assert "old" in refused(path, age_s=0.2, now_clock_s=now + 0.05)  # the machine slept
    monkeypatch.setattr(
        "macontrol.controller.recording.runfile.resume.this_boot", lambda: "another"
    )
    assert "in the future" in refused(path, age_s=-1, now_clock_s=now + 0.05)


@pytest.mark.parametrize(
    "change",
    [{"run__seed": 2}, {"algorithm__beta": 1.5}, {"physical__region_length": 6.0 + 1e-12}],
)
def test_another_config_is_a_cold_start(tmp_path: Path, change: dict[str, float]) -> None:
    path = write_run(tmp_path / "run.sqlite", range(1, 41))
    assert "another config" in refused(path, CONFIG.replace(**change))


def test_a_missing_run_and_one_of_another_stage_are_not_resumed(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run.sqlite", range(1, 41))
    assert "another stage" in refused(path, stage="/dev/ttyUSB0")
    assert isinstance(find_resume(path, CONFIG, WALL + LAST_START, stage="sim"), Resume)
    assert "no such file" in refused(tmp_path / "nothing.sqlite")
    assert "before its first slot" in refused(write_run(tmp_path / "empty.sqlite", range(0)))
    (tmp_path / "other").write_text("x")
    assert "not a run file" in refused(tmp_path / "other")


LAST = "WHERE slot = 40"
DAMAGES = [
    *(
        f"UPDATE slots SET {name} = {value} {LAST}"
        for name in ("position", "stored_next_position", "stored_target", "start_s")
        for value in ("''", "'abc'", "x'00ff'", "9e999", "-9e999")
    ),
    *(f"UPDATE slots SET {name} = NULL {LAST}" for name in ("position", "start_s")),
    *(
        f"UPDATE slots SET {name} = {value} {LAST}"
        for name in ("stored_next_position", "stored_target")
        for value in ("1e9", "-1", "6.1")
    ),
    *(
        f"UPDATE slots SET reward = {value} WHERE slot = 39"
        for value in ("'abc'", "x'00ff'", "9e999", "-9e999", "1e300", "-1e300")
    ),
    *(
        f"UPDATE slots SET position = {value} WHERE slot = 39"
        for value in ("'abc'", "9e999", "-0.1", "6.1")
    ),
    *(f"UPDATE slots SET slot = {slot} {LAST}" for slot in (2**62, 2**63 - 1, 41, 10**9, -3)),
    f"DELETE FROM slots WHERE slot < 40; UPDATE slots SET slot = {2**62}",
    "UPDATE slots SET slot = slot - 1000000",
    "UPDATE slots SET start_s = 'abc' WHERE slot = 1",
    *(
        f"UPDATE header SET value = '{value}' WHERE key = 'window'"
        for value in (
            "[[0, 1.0, 2.0]]",
            "[[3, 1.0, 2.0], [2, 1.0, 2.0]]",
            "[[41, 1.0, 2.0]]",
            '[["3", 1.0, 2.0]]',
            '[[1, "1.0", 2.0]]',
            "[[1, 1.0, NaN]]",
            "[[1, 1.0, 1" + 400 * "0" + "]]",
            "[[1, 7.0, 2.0]]",
            "[[1]]",
            "17",
        )
    ),
    *(
        f"UPDATE header SET value = '{value}' WHERE key = 'survey'"
        for value in (
            "[[], []]",
            '{"position": [], "reward": []}',
            '{"position": [1.0, 2.0], "reward": [1.0]}',
            '{"position": [1.0, 2.0], "reward": [1.0, NaN]}',
            '{"position": [1.0, 2.0], "reward": [1.0, 1e300]}',
            '{"position": [1.0, 7.0], "reward": [1.0, 1.0]}',
            '{"position": [1.0, "x"], "reward": [1.0, 1.0]}',
            100_000 * "[",
        )
    ),
    *(
        f"UPDATE header SET value = '{value}' WHERE key = '{key}'"
        for key in ("started_wall_s", "started_clock_s")
        for value in ('"abc"', "null", "NaN", "-Infinity", "1e300", "1" + 400 * "0")
    ),
    "UPDATE header SET value = 17 WHERE key = 'config'",
    "UPDATE header SET value = x'ff00' WHERE key = 'config'",
]


@pytest.mark.fault("last-run-damaged")
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage[:80])
def test_a_file_that_no_run_can_have_written_is_not_resumed(tmp_path: Path, damage: str) -> None:
    """The file can still be renamed for a new run."""
    is_of_window = "window" in damage
    slots = range(37, 41) if is_of_window else range(1, 41)
    window = (Sample(5, 1.0, 2.0),) if is_of_window else ()
    path = write_run(tmp_path / "sim-1.sqlite", slots, window=window)
    resumed(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(damage)
        connection.commit()
        connection.execute("PRAGMA journal_mode = DELETE")
    assert refused(path)
    assert set_aside(path) is not None


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    window = tuple(Sample(slot, 1.0, 2.0) for slot in range(3, 10))
    path = write_run(tmp_path_factory.mktemp("whole") / "run.sqlite", range(20, 41), window=window)
    return path.read_bytes()


def test_tables_whose_names_are_not_text_are_damage(whole: bytes, tmp_path: Path) -> None:
    """SQLite puts them into its message, and Python fails to read that."""
    path = tmp_path / "sim-1.sqlite"
    path.write_bytes(
        whole.replace(b"CREATE TABLE slots (slot", b"CREATE TABLE slots (\xff\xfc\xff(")
    )
    assert "damaged" in refused(path)
    assert set_aside(path) is not None


def test_a_header_is_read_as_it_was_stored() -> None:
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


class TestLookingBack:
    """A run file without a readable slot does not hide the run before it."""

    AGE_S = 0.03

    def among(self, *paths: Path) -> Resume | NoResume | None:
        now = WALL + LAST_START + self.AGE_S
        for age, path in enumerate(paths):
            os.utime(path, (now - age / 1000, now - age / 1000))
        return find_resume_among(paths, CONFIG, now, stage="sim", backend="sim")

    @pytest.mark.fault("last-run-empty")
    def test_a_run_without_slots_is_skipped(self, tmp_path: Path) -> None:
        run = write_run(tmp_path / "run.sqlite", range(1, 41))
        dead = [write_run(tmp_path / f"dead{number}.sqlite", range(0)) for number in range(2)]
        found = self.among(*dead, run)
        assert isinstance(found, Resume)
        assert (found.path, found.last_slot) == (run, 40)

    @pytest.mark.fault("last-run-damaged")
    def test_a_damaged_run_is_skipped(self, tmp_path: Path) -> None:
        run = write_run(tmp_path / "run.sqlite", range(1, 41))
        damaged = tmp_path / "damaged.sqlite"
        damaged.write_bytes(run.read_bytes()[:9000])
        found = self.among(damaged, run)
        assert isinstance(found, Resume)
        assert found.path == run

    def test_a_run_that_cannot_be_continued_is_not_skipped(self, tmp_path: Path) -> None:
        run = write_run(tmp_path / "run.sqlite", range(1, 41))
        other = write_run(tmp_path / "other.sqlite", range(1, 41))
        with closing(sqlite3.connect(other, isolation_level=None)) as connection:
            connection.execute("UPDATE header SET value = '\"serial\"' WHERE key = 'backend'")
        found = self.among(other, run)
        assert isinstance(found, NoResume)
        assert "another backend" in found.reason

    def test_the_reason_is_that_of_the_newest(self, tmp_path: Path) -> None:
        dead = write_run(tmp_path / "dead.sqlite", range(0))
        foreign = tmp_path / "foreign.sqlite"
        foreign.write_text("text")
        found = self.among(dead, foreign)
        assert isinstance(found, NoResume)
        assert "before its first slot" in found.reason
        assert self.among() is None

    @pytest.mark.fault("last-run-empty")
    def test_files_older_than_the_window_are_not_read(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        opened: list[Path] = []
        real = find_resume

        def find(path: Path, *arguments: Any, **options: Any) -> Resume | NoResume:
            opened.append(path)
            return real(path, *arguments, **options)

        monkeypatch.setattr("macontrol.controller.recording.runfile.resume.find_resume", find)
        dead = [write_run(tmp_path / f"dead{number}.sqlite", range(0)) for number in range(3)]
        now = WALL + LAST_START
        for path, age_s in zip(dead, (0.0, 0.09, 0.11), strict=True):
            os.utime(path, (now - age_s, now - age_s))
        find_resume_among(dead, CONFIG, now, stage="sim", backend="sim")
        assert opened == dead[:2]
