"""The recorder: complete files, whatever happens to process and disk, without delay."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from math import nan
from pathlib import Path

import numpy as np
import pytest

from macontrol import __version__
from macontrol.config import load_config
from macontrol.config.files import free_space
from macontrol.config.model.errors import InputOutputError
from macontrol.controller.recording.records import (
    Event,
    EventKind,
    Item,
    LateReward,
    SlotRecord,
)
from macontrol.controller.recording.runfile import (
    RunFileRecorder,
    RunHeader,
    database,
    read_run,
    recorder,
    set_aside,
)
from macontrol.controller.recording.runfile.schema import SLOT_COLUMNS
from macontrol.controller.survey.samples import Sample as SurveySample
from macontrol.controller.survey.samples import Survey
from macontrol.hal.probe import Signal
from support.sample_run import slot_record

CONFIG = load_config()
RECORD_FIELDS = [
    column.name for column in SLOT_COLUMNS if column.default is None and not column.is_later
]


def header() -> RunHeader:
    return RunHeader.of(
        CONFIG,
        backend="sim",
        stage="sim",
        survey=Survey(np.array([0.0, 0.1, 6.0]), np.array([1.0, 0.1 + 0.2, 3.0])),
        sigma_f2=0.7,
        started_wall_s=1_700_000_000.25,
        started_clock_s=100.0,
    )


def record(slot: int, reward: float | None = 1.5) -> SlotRecord:
    return slot_record(
        slot,
        start_s=100.0 + 0.005 * slot,
        reward=reward,
        invalid=None if reward is not None else "late",
        target=2.5,
        next_position=2.94,
        transit=True,
        shortfall=0.1,
        wake_s=1e-5,
        actuate_s=1e-3,
        measure_s=3e-3,
        decide_s=2e-4,
    )


@contextmanager
def recording(path: Path, *, flush_s: float = 0.02) -> Iterator[tuple[RunFileRecorder, list[str]]]:
    reported: list[str] = []
    file = RunFileRecorder(path, header(), flush_s=flush_s, on_problem=reported.append)
    file.start()
    try:
        yield file, reported
    finally:
        file.close(0.5)


def wait_for(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "this did not come to pass"
        time.sleep(0.005)


def test_a_run_is_one_complete_file(tmp_path: Path) -> None:
    path = tmp_path / "run #1?%41.sqlite"
    with recording(path) as (file, reported):
        for slot in range(1, 1001):
            file.submit(record(slot))
        file.submit(Event(7, 100.035, EventKind.POLICY, "to fixed", 2.0))
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    assert (file.written, file.lost, file.pending, file.problems, reported) == (1001, 0, 0, 0, [])
    run = read_run(path)
    np.testing.assert_array_equal(run.slots["slot"], np.arange(1, 1001))
    for name in RECORD_FIELDS:
        wanted = getattr(record(1000), name)
        stored = run.slots[name][-1]
        if name in ("invalid", "level_unit"):
            assert stored == ""
        elif wanted is None:
            assert np.isnan(stored)
        else:
            assert stored == wanted
    assert list(run.events) == [Event(7, 100.035, EventKind.POLICY, "to fixed", 2.0)]


def test_the_header_has_what_was_run_where_and_with_which_clock(tmp_path: Path) -> None:
    with recording(tmp_path / "run.sqlite"):
        stored = read_run(tmp_path / "run.sqlite").header
    assert stored.config == CONFIG
    assert (stored.version, stored.seed, stored.policy) == (__version__, 1, "moveucb")
    assert (stored.pid, stored.sqlite) == (os.getpid(), sqlite3.sqlite_version)
    assert stored.host
    assert stored.wall_s(101.5) == 1_700_000_001.75
    assert stored.started.isoformat() == "2023-11-14T22:13:20.250000+00:00"
    assert stored.survey is not None
    np.testing.assert_array_equal(stored.survey.reward, [1.0, 0.1 + 0.2, 3.0])


@pytest.mark.parametrize("count", [2, 0, 1])
def test_the_header_has_what_is_known_of_each_sample_of_the_survey(count: int) -> None:
    """A damaged file can have more or fewer samples than positions: it has none then."""
    samples = [
        SurveySample(0.5, 1.25, nan, nan),
        SurveySample(1.0, 2.5, 0.25, 1.7e9, Signal(-31.5, "dBFS", -60.0, 28.5, 0.25, 4800)),
    ]
    survey = Survey.of(samples, 1.7e9)
    header = RunHeader.of(
        CONFIG,
        backend="serial",
        stage="a",
        survey=replace(survey, samples=survey.samples[:count]),
        sigma_f2=None,
        started_wall_s=1.7e9,
        started_clock_s=0.0,
    )
    stored = RunHeader.from_rows(dict(header.rows())).survey
    assert stored is not None
    assert str(stored.samples) == str(survey.samples if count == 2 else ())
    np.testing.assert_array_equal(stored.reward, survey.reward)


@pytest.mark.parametrize("order", ["same batch", "after the commit", "before the record"])
def test_a_late_reward_completes_the_row_of_its_slot(tmp_path: Path, order: str) -> None:
    path = tmp_path / "run.sqlite"
    flush_s = 5.0 if order == "same batch" else 0.01
    with recording(path, flush_s=flush_s) as (file, _):
        file.submit(record(1))
        if order == "before the record":
            file.submit(LateReward(2, 4.5, 0.25))
            wait_for(lambda: file.written == 1)
        file.submit(record(2, None))
        if order == "after the commit":
            wait_for(lambda: file.written == 2)
        if order != "before the record":
            file.submit(LateReward(2, 4.5, 0.25))
        file.submit(record(3, None))
    slots = read_run(path).slots
    np.testing.assert_array_equal(slots["reward"], [1.5, 4.5, np.nan])
    np.testing.assert_array_equal(slots["uncertainty"], [np.nan, 0.25, np.nan])
    assert slots["invalid"].tolist() == ["", "", "late"]
    assert slots["late"].tolist() == [False, True, False]
    assert (file.written, file.lost, file.pending) == (4, 0, 0)


def test_a_late_reward_brings_the_level_of_its_slot_and_takes_nothing_away(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    seen = Signal(-41.5, "dBm", -90.0, 48.5, 0.125, 64)
    with recording(path) as (file, _):
        file.submit(record(1, None))
        file.submit(LateReward(1, 4.5, 0.25, signal=seen))
        file.submit(record(2)._replace(level_db=-50.0, level_unit="dBFS", samples=7))
        file.submit(LateReward(2, None, None, "no-signal", withdrawn=1.5))
        file.submit(record(3, None))
    slots = read_run(path).slots
    for name, value in seen._asdict().items():
        assert slots[name][0] == value
    assert slots["level_unit"].tolist() == ["dBm", "dBFS", ""]
    np.testing.assert_array_equal(slots["level_db"], [-41.5, -50.0, np.nan])
    np.testing.assert_array_equal(slots["samples"], [64, 7, np.nan])
    np.testing.assert_array_equal(slots["reward"], [4.5, np.nan, np.nan])


def test_a_measurement_that_turns_out_invalid_later_leaves_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    with recording(path) as (file, _):
        file.submit(record(1, None))
        file.submit(LateReward(1, None, None, "clipping"))
    slots = read_run(path).slots
    assert np.isnan(slots["reward"]).all()
    assert (slots["invalid"].tolist(), slots["late"].tolist()) == (["clipping"], [False])


def test_a_late_reward_of_a_slot_that_was_never_recorded_is_counted_as_lost(tmp_path: Path) -> None:
    with recording(tmp_path / "run.sqlite") as (file, reported):
        file.submit(record(5))
        file.submit(LateReward(4, 1.0, None))
        file.submit(LateReward(9, 1.0, None))
    assert (file.written, file.lost) == (1, 2)
    assert "1 records could not be written" in reported[0]


def test_only_the_record_that_no_file_can_store_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    with recording(path, flush_s=5.0) as (file, reported):
        file.submit(record(1))
        file.submit(record(2)._replace(target=object()))  # type: ignore[arg-type]
        file.submit(record(1))
        file.submit("nonsense")  # type: ignore[arg-type]
        file.submit(LateReward(1, object(), None))  # type: ignore[arg-type]
        file.submit(record(2**70))
        file.submit(record(3))
    assert read_run(path).slots["slot"].tolist() == [1, 3]
    assert (file.written, file.lost, file.problems) == (2, 5, 1)
    assert "cannot be written" in reported[0]


def test_bad_records_are_reported_once_and_not_in_every_slot(tmp_path: Path) -> None:
    with recording(tmp_path / "run.sqlite") as (file, reported):
        for lost in (1, 2, 3):
            file.submit("nonsense")  # type: ignore[arg-type]
            wait_for(lambda lost=lost: file.lost == lost)  # type: ignore[misc]
    assert (file.problems, len(reported)) == (1, 1)


def test_numbers_are_stored_to_the_last_bit(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    odd = [0.1 + 0.2, 5e-324, -1.7976931348623157e308, float("inf")]
    with recording(path) as (file, _):
        for slot, value in enumerate([*odd, float("nan"), np.float64(np.pi)], start=1):
            file.submit(record(slot, float(value)))
            file.submit(Event(slot, 0.0, EventKind.WARNING, "", np.float64(value)))
    run = read_run(path)
    np.testing.assert_array_equal(run.slots["reward"], [*odd, np.nan, np.pi])
    assert [event.value for event in run.events] == [*odd, None, np.pi]


def test_200_000_records_are_all_written_without_growth_of_memory(tmp_path: Path) -> None:
    def memory() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    with recording(tmp_path / "run.sqlite", flush_s=0.25) as (file, _):
        grown = []
        for slot in range(1, 200_001):
            file.submit(record(slot))
            if slot % 64 == 0:
                file.throttle()
                assert file.pending <= recorder.AHEAD
            if slot % 50_000 == 0:
                grown.append(memory())
        file.close(30)
    assert (file.written, file.lost, file.problems) == (200_000, 0, 0)
    assert grown[-1] - grown[1] < 30e6
    with closing(sqlite3.connect(tmp_path / "run.sqlite")) as connection:
        assert connection.execute("SELECT count(*), max(slot) FROM slots").fetchone() == (
            200_000,
            200_000,
        )


def test_the_log_stays_short_on_a_virtual_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "LOG_LIMIT_BYTES", 1 << 20)
    monkeypatch.setattr(recorder, "AHEAD", 2_000)
    longest = 0
    with recording(tmp_path / "run.sqlite") as (file, _):
        for slot in range(1, 60_001):
            file.submit(record(slot))
            if slot % 100 == 0:
                file.throttle()
                longest = max(longest, (tmp_path / "run.sqlite-wal").stat().st_size)
    assert file.written == 60_000
    assert longest < 4 << 20


def test_records_are_refused_and_counted_when_the_writer_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "KEPT", 100)
    file = RunFileRecorder(tmp_path / "run.sqlite", header())
    for slot in range(150):
        file.submit(record(slot))
    assert (file.pending, file.lost) == (100, 50)


@pytest.mark.fault("disk-hangs-at-end")
def test_records_that_a_hanging_disk_has_not_stored_at_the_end_are_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[str] = []
    file = RunFileRecorder(tmp_path / "run.sqlite", header(), on_problem=reported.append)
    file.start()
    wakes = threading.Event()
    monkeypatch.setattr(file, "_flush", wakes.wait)
    monkeypatch.setattr(recorder, "BUSY_S", 0.0)
    for slot in range(1, 8):
        file.submit(record(slot))
    file.close(0.05)
    assert (file.lost, file.written) == (7, 0)
    assert [message.rpartition("; ")[2] for message in reported] == ["7 records may be lost"]
    monkeypatch.undo()
    wakes.set()
    wait_for(lambda: file.pending == 0)
    assert (file.lost, file.written) == (0, 7), "the disk came back before the process ended"


def test_the_newest_records_wait_for_a_disk_that_stores_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restart needs the newest records; older ones are counted as lost."""
    monkeypatch.setattr(recorder, "RETRY_S", 0.02)
    monkeypatch.setattr(recorder, "KEPT", 100)

    def refuse(_: object) -> int:
        raise sqlite3.OperationalError("disk I/O error")

    with recording(tmp_path / "run.sqlite") as (file, _):
        with monkeypatch.context() as patch:
            patch.setattr(file, "_commit", refuse)
            for slots in (range(1, 91), range(91, 151)):
                for slot in slots:
                    file.submit(record(slot))
                wait_for(lambda: file._size() == 0)
            wait_for(lambda: file.lost == 50)
        wait_for(lambda: file.pending == 0)
    assert list(read_run(tmp_path / "run.sqlite").slots["slot"]) == [*range(51, 151)]
    assert (file.written, file.lost) == (100, 50)


@pytest.mark.parametrize(
    "place", ["missing/run.sqlite", "a-file/run.sqlite", "taken.sqlite", "x" * 300]
)
def test_a_file_that_cannot_be_created_is_refused_with_its_reason(
    tmp_path: Path, place: str
) -> None:
    (tmp_path / "a-file").write_text("")
    (tmp_path / "taken.sqlite").write_text("precious")
    with pytest.raises(InputOutputError, match=r"taken|cannot be written there|there is a file"):
        RunFileRecorder(tmp_path / place, header()).start()
    assert (tmp_path / "taken.sqlite").read_text() == "precious"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a-file", "taken.sqlite"]


@pytest.mark.fault("run-file-renamed")
def test_a_file_that_is_renamed_during_the_run_is_reported_and_loses_nothing(
    tmp_path: Path,
) -> None:
    with recording(tmp_path / "run.sqlite") as (file, reported):
        (tmp_path / "run.sqlite").rename(tmp_path / "other.sqlite")
        wait_for(lambda: file.problems == 1)
    assert "was renamed" in reported[0]
    assert file.lost == 0


@pytest.mark.fault("run-file-deleted")
def test_a_deleted_folder_costs_its_records_and_a_new_file_is_created(tmp_path: Path) -> None:
    path = tmp_path / "state" / "macontrol" / "run.sqlite"
    path.parent.mkdir(parents=True)
    with recording(path) as (file, reported):
        for slot in range(1, 11):
            file.submit(record(slot))
        wait_for(lambda: file.written == 10)
        shutil.rmtree(tmp_path / "state")
        file.submit(record(11))
        wait_for(lambda: file.written == 1)
        assert file.lost == 10
    assert len(reported) == 1
    assert "10 records are lost" in reported[0]
    assert (file.written, file.lost) == (1, 10)
    assert read_run(path).slots["slot"].tolist() == [11]
    assert [p.name for p in path.parent.iterdir()] == [path.name]


@pytest.mark.fault("run-file-deleted")
def test_records_wait_until_a_deleted_file_can_be_created_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "RETRY_S", 0.02)
    path = tmp_path / "state" / "run.sqlite"
    path.parent.mkdir()
    with recording(path) as (file, reported):
        file.submit(record(1))
        wait_for(lambda: file.written == 1)
        shutil.rmtree(path.parent)
        path.parent.write_text("no folder")
        file.submit(record(2))
        wait_for(lambda: len(reported) == 1)
        assert "recording has stopped" in reported[0]
        path.parent.unlink()
        wait_for(lambda: file.written == 1)
    assert "1 records are lost" in reported[1]
    assert "recording continues" in reported[2]
    assert (file.written, file.lost) == (1, 1)
    assert read_run(path).slots["slot"].tolist() == [2]


@pytest.mark.fault("run-file-deleted")
def test_a_deleted_file_that_cannot_be_created_again_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "RETRY_S", 0.02)
    path = tmp_path / "state" / "run.sqlite"
    path.parent.mkdir()
    with recording(path) as (file, _):
        file.submit(record(1))
        wait_for(lambda: file.written == 1)
        shutil.rmtree(path.parent)
        path.parent.write_text("no folder")
        file.submit(record(2))
    assert (file.written, file.lost) == (0, 2)


@pytest.mark.fault("low-space")
def test_recording_pauses_below_the_limit_of_free_space_and_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "RETRY_S", 0.02)
    monkeypatch.setattr(free_space, "_CHECK_INTERVAL_S", 0.0)
    free = [100.0]
    room = free_space.FreeSpace(tmp_path, 200.0, measure=lambda _: free[0])
    reported: list[str] = []
    file = RunFileRecorder(
        tmp_path / "run.sqlite", header(), flush_s=0.01, on_problem=reported.append, room=room
    )
    file.start()
    try:
        file.submit(record(1))
        wait_for(lambda: len(reported) == 1)
        assert "only 100 MB are free" in reported[0]
        assert (file.written, file.pending, file.lost) == (0, 1, 0)
        free[0] = 300.0
        wait_for(lambda: file.written == 1)
        assert "recording continues" in reported[1]
        free[0] = 100.0
        file.submit(record(2))
        wait_for(lambda: len(reported) == 3)
    finally:
        file.close(0.05)
    assert (file.written, file.lost) == (1, 1)
    assert read_run(tmp_path / "run.sqlite").slots["slot"].tolist() == [1]


def test_events_that_the_listener_submits_are_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "RETRY_S", 0.05)
    path = tmp_path / "run.sqlite"

    def report(message: str) -> None:
        file.submit(Event(1, 0.0, EventKind.RECORDING, message))

    file = RunFileRecorder(path, header(), flush_s=30.0, on_problem=report)
    file.start()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        file.submit(record(1))
        file._wake.set()
        wait_for(lambda: file.problems == 1)
        other.execute("ROLLBACK")
    file.close()
    stopped, goes_on = (event.detail for event in read_run(path).events)
    assert "has stopped" in stopped
    assert "recording continues" in goes_on
    assert (file.written, file.lost, file.pending) == (3, 0, 0)


def test_a_listener_that_fails_does_not_stop_the_recording(tmp_path: Path) -> None:
    def fail(message: str) -> None:
        raise RuntimeError(message)

    file = RunFileRecorder(tmp_path / "run.sqlite", header(), flush_s=0.01, on_problem=fail)
    file.start()
    file.submit(record(1)._replace(target=object()))  # type: ignore[arg-type]
    file.submit(record(2))
    file.close()
    assert (file.written, file.lost, file.problems) == (1, 1, 1)


# The disk.


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Callable[[str], None]]:
    """A file system of this size on the folder, and a way to mount it again with other options."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("no mount command here: the test needs a small disk of its own")
    if done.returncode:
        pytest.skip(f"may not mount a small disk of its own: {done.stderr.strip()}")

    def remount(options: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{options}", str(folder)], check=True)

    try:
        yield remount
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_is_reported_once_and_loses_nothing_if_space_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "RETRY_S", 0.05)
    with small_disk(tmp_path / "disk", "1m") as remount:
        path = tmp_path / "disk" / "run.sqlite"
        with recording(path) as (file, reported):
            commit, committed_by = file._commit, set()

            def watched(chunk: Sequence[Item]) -> None:
                committed_by.add(threading.current_thread().name)
                commit(chunk)

            monkeypatch.setattr(file, "_commit", watched)
            for slot in range(1, 30_001):
                file.submit(record(slot))
            wait_for(lambda: file.problems == 1)
            assert committed_by == {"run-file-writer"}, "control waits for the disk"
            file.throttle()  # returns at once
            time.sleep(0.3)
            assert file.pending > 0
            assert len(reported) == 1
            assert "full" in reported[0]
            assert "the run continues" in reported[0]
            remount("size=100m")
            wait_for(lambda: file.pending == 0)
            file.submit(record(30_001))
        run = read_run(path)
        np.testing.assert_array_equal(run.slots["slot"], np.arange(1, 30_002))
    assert (file.lost, file.problems) == (0, 1)
    assert "continues after" in reported[1]
    assert "0 records lost" in reported[1]


@pytest.mark.fault("disk-full")
def test_records_lost_on_a_full_disk_are_counted_and_reported_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "RETRY_S", 0.05)
    monkeypatch.setattr(recorder, "KEPT", 4_000)
    with small_disk(tmp_path / "disk", "1m"):
        path = tmp_path / "disk" / "run.sqlite"
        with recording(path) as (file, reported):
            for slot in range(1, 30_001):
                file.submit(record(slot))
                if slot % 1000 == 0:
                    time.sleep(0.03)
            wait_for(lambda: file.problems == 1)
            wait_for(lambda: file.pending <= 4_000)
        slots = read_run(path).slots["slot"]
        np.testing.assert_array_equal(slots, np.arange(1, len(slots) + 1))
    assert len(slots) == file.written
    assert file.written + file.lost == 30_000
    assert file.written > 1000
    assert file.lost > 4_000
    assert reported[-1].endswith("records could not be written and are lost")


def test_a_limit_on_the_file_size_is_a_full_disk(tmp_path: Path) -> None:
    done = in_process(
        tmp_path / "run.sqlite",
        """
        import resource
        recorder.RETRY_S = 0.05
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
        for slot in range(1, 10_001):
            file.submit(record(slot))
        wait_for(lambda: file.problems == 1)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        wait_for(lambda: file.pending == 0)
        file.close()
        print(json.dumps([file.lost, file.problems, len(reported)]))
        """,
    )
    out, errors = done.communicate(timeout=60)
    assert (done.returncode, errors) == (0, "")
    assert json.loads(out.splitlines()[-1]) == [0, 1, 2]
    assert read_run(tmp_path / "run.sqlite").slots["slot"].tolist() == list(range(1, 10_001))


def test_a_file_that_another_program_locks_or_protects_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "RETRY_S", 0.05)
    monkeypatch.setattr(database, "BUSY_S", 0.05)
    path = tmp_path / "run.sqlite"
    with recording(path) as (file, reported):
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            file.submit(record(1))
            wait_for(lambda: file.problems == 1)
            other.execute("ROLLBACK")
            wait_for(lambda: file.pending == 0)
        assert file._connection is not None
        file._connection.execute("PRAGMA query_only = ON")
        file.submit(record(2))
        wait_for(lambda: file.problems == 2 and file.pending == 0)
    assert "locked" in reported[0]
    assert "readonly" in reported[2]
    assert read_run(path).slots["slot"].tolist() == [1, 2]
    assert file.lost == 0


def test_no_run_file_is_created_on_a_read_only_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "1m") as remount:
        remount("ro")
        with pytest.raises(InputOutputError, match="Read-only file system"):
            RunFileRecorder(tmp_path / "disk" / "run.sqlite", header()).start()


# The process.

PROLOGUE = f"""
import importlib.util, json, sys, time
sys.path.insert(0, {str(Path(__file__).parents[3])!r})
from pathlib import Path
spec = importlib.util.spec_from_file_location("here", {__file__!r})
here = importlib.util.module_from_spec(spec)
spec.loader.exec_module(here)
record, recorder, wait_for, LateReward = here.record, here.recorder, here.wait_for, here.LateReward
reported = []
path = Path(sys.argv[1])
file = here.RunFileRecorder(path, here.header(), on_problem=reported.append)
file.start()
print("started", flush=True)
"""


def in_process(path: Path, code: str) -> "subprocess.Popen[str]":
    """Record in another process."""
    script = PROLOGUE + textwrap.dedent(code)
    return subprocess.Popen(
        [sys.executable, "-c", script, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


REAL_TIME = """
slot, begin = 0, time.monotonic()
while True:
    slot += 1
    file.submit(record(slot, None))
    if slot > 1:
        file.submit(LateReward(slot - 1, 1.0, None))
    print(slot, time.monotonic(), flush=True)
    time.sleep(max(0, begin + 0.005 * slot - time.monotonic()))
"""

AS_FAST_AS_IT_COMPUTES = """
recorder.LOG_LIMIT_BYTES = 1 << 18
recorder.CHUNK = 500
slot = 0
while True:
    slot += 1
    file.submit(record(slot))
    if slot % 64 == 0:
        file.throttle()
    if slot % 500 == 0:
        print(slot, time.monotonic(), flush=True)
"""


@pytest.mark.fault("process-killed-recording")
@pytest.mark.parametrize(
    ("pace", "moments"),
    [(REAL_TIME, (0.0, 0.13, 0.52, 1.7)), (AS_FAST_AS_IT_COMPUTES, (0.3, 1.1))],
    ids=["real time", "fast"],
)
def test_kill_9_at_any_moment_costs_at_most_the_last_second(
    tmp_path: Path, pace: str, moments: tuple[float, ...]
) -> None:
    pace = "recorder.KEEP_S = 0.1\n" + pace  # the log is copied all the time
    for moment in moments:
        # A machine that was too busy to run the writer for a second is asked once more.
        missing = [kill_after(tmp_path / f"{moment}.sqlite", pace, moment)]
        while missing[-1] > 1.0 and len(missing) < 3:
            missing.append(kill_after(tmp_path / f"{moment}-{len(missing)}.sqlite", pace, moment))
        assert missing[-1] <= 1.0, missing


def kill_after(path: Path, pace: str, seconds: float) -> float:
    """Kill a recording process; return how many seconds of records are missing in its file."""
    process = in_process(path, pace)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "started\n"
    time.sleep(seconds)
    process.kill()
    # Read on where readline() stopped: communicate() would pass over what it had buffered, and
    # begin in the middle of a line.
    with process, process.stdout as out, process.stderr as errors:
        lines = [line.split() for line in out if line.endswith("\n")]
        assert errors.read() == ""
    assert process.returncode == -signal.SIGKILL
    handed = [(int(slot), float(when)) for slot, when in lines]
    run = read_run(path)
    assert run.header.config == CONFIG
    slots = run.slots["slot"]
    np.testing.assert_array_equal(slots, np.arange(1, len(slots) + 1))
    # Rewards came a record later: a commit may have caught the last two slots without theirs.
    assert not np.isnan(run.slots["reward"][:-2]).any()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    missing = [when for slot, when in handed if slot > len(slots)]
    return handed[-1][1] - missing[0] if missing else 0.0


def test_two_processes_cannot_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    first = in_process(path, "file.submit(record(1)); sys.stdin.read()")
    try:
        assert first.stdout is not None
        assert first.stdout.readline() == "started\n"
        with pytest.raises(InputOutputError, match=f"process id {first.pid}"):
            set_aside(path)
        with pytest.raises(InputOutputError, match="the file exists"):
            RunFileRecorder(path, header()).start()
    finally:
        first.kill()
        first.communicate()
    assert set_aside(path) is not None
