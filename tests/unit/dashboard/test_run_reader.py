"""Reading a run file while it is written: the writer does not feel it."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from pathlib import Path

import pytest

from macontrol.config.model.errors import DataError
from macontrol.controller.recording.records import Event, EventKind
from macontrol.controller.recording.runfile import RunFileRecorder, RunHeader
from macontrol.controller.recording.runfile.database import open_run
from macontrol.dashboard.run_library import RunLibrary
from macontrol.dashboard.run_reader import RunReader, nested, numeric
from macontrol.dashboard.run_tail import SAMPLES, RunTail
from macontrol.metrics import BUCKETS_S
from support.sample_run import CLOCK, CONFIG, SURVEY, WALL, slot_record, write_run
from support.waiting import wait_until


@pytest.fixture
def recorder(tmp_path: Path) -> RunFileRecorder:
    header = RunHeader.of(
        CONFIG,
        backend="sim",
        stage="sim",
        survey=SURVEY,
        sigma_f2=0.75,
        started_wall_s=WALL,
        started_clock_s=CLOCK,
    )
    return RunFileRecorder(tmp_path / "run.sqlite", header, flush_s=0.01)


def submit(recorder: RunFileRecorder, slots: range) -> None:
    for slot in slots:
        recorder.submit(slot_record(slot, reward=1.0 + slot / 100, wake_s=1e-5, decide_s=2e-4))


def test_readers_never_make_the_writer_wait(recorder: RunFileRecorder) -> None:
    """Commits go on while two readers read without a pause."""
    recorder.start()
    ended = threading.Event()
    reads: list[int] = []
    reader, tail = RunReader(recorder.path), RunTail()
    tail.follow(recorder.path)

    def read() -> None:
        while not ended.is_set():
            reads.append(len(list(reader.all_slots("slot, reward", 0, 10**9))))
            tail.read()

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    writer = open_run(recorder.path)
    try:
        # A second writer that never waits: one lock of a reader that it felt would be an error.
        writer.execute("PRAGMA busy_timeout = 0")
        for number in range(20):
            submit(recorder, range(number * 50 + 1, number * 50 + 51))
            wait_until(lambda: recorder.pending == 0)
            writer.execute("BEGIN IMMEDIATE")
            writer.execute("UPDATE header SET value = value")
            writer.execute("COMMIT")
        wait_until(lambda: len(reads) > 10)
        assert recorder.problems == 0
    finally:
        ended.set()
        for thread in threads:
            thread.join()
        writer.close()
        recorder.close()
    assert recorder.lost == 0
    assert len(list(reader.all_slots("slot", 0, 10**9))) == 1000


def test_a_query_leaves_no_transaction_behind(recorder: RunFileRecorder) -> None:
    """Without a reader in it, the log can be emptied, which needs every lock."""
    recorder.start()
    submit(recorder, range(1, 100))
    wait_until(lambda: recorder.pending == 0)
    reader = RunReader(recorder.path)
    assert reader.bounds() == (1, 99)
    writer = open_run(recorder.path)
    try:
        writer.execute("PRAGMA busy_timeout = 2000")
        assert writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
        assert len(reader.slots("slot, position, reward", 1, 99)) == 99
        assert writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
    finally:
        writer.close()
        recorder.close()


def test_a_reader_leaves_no_file_behind(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run.sqlite", range(1, 41))
    before = path.read_bytes()
    reader = RunReader(path)
    assert reader.bounds() == (1, 40)
    assert reader.header()["policy"] == '"moveucb"'
    assert [row[0] for row in reader.all_slots("slot", 10, 20)] == list(range(10, 21))
    assert [path.name for path in tmp_path.iterdir()] == ["run.sqlite"]
    assert path.read_bytes() == before


def test_a_query_takes_a_limited_number_of_rows(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run.sqlite", range(1, 9001))
    reader = RunReader(path)
    assert len(reader.slots("slot", 1, 9000, rows=10**9)) == 4000
    assert len(list(reader.all_slots("slot", 1, 9000))) == 9000


def test_a_file_that_is_no_run_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.sqlite").write_bytes(b"no database" * 100)
    with sqlite3.connect(tmp_path / "b.sqlite") as other:
        other.execute("CREATE TABLE slots (slot INTEGER)")
    for name in ("a", "b"):
        with pytest.raises(DataError):
            RunReader(tmp_path / f"{name}.sqlite").bounds()


def test_the_tail_takes_the_newest_samples_once(recorder: RunFileRecorder) -> None:
    recorder.start()
    tail = RunTail()
    tail.follow(recorder.path)
    tail.read()
    assert list(tail.samples) == []
    submit(recorder, range(1, 11))
    wait_until(lambda: recorder.pending == 0)
    tail.read()
    tail.read()
    assert [sample[0] for sample in tail.samples] == list(range(1, 11))
    assert sum(tail.wake.counts) == 10
    assert tail.wake.counts[BUCKETS_S.index(1e-5)] == 10
    assert tail.decide.total_s == pytest.approx(10 * 2e-4)
    submit(recorder, range(11, 501))
    wait_until(lambda: recorder.pending == 0)
    tail.read()
    assert len(tail.samples) == SAMPLES
    assert tail.samples[-1] == (500, 3.0, 6.0)
    assert sum(tail.wake.counts) == 500
    recorder.close()


def test_the_list_has_the_newest_run_first_and_reads_a_changed_one_again(tmp_path: Path) -> None:
    write_run(tmp_path / "old.sqlite", range(1, 41))
    time.sleep(0.02)
    write_run(tmp_path / "new.sqlite", range(1, 3))
    (tmp_path / "damaged.sqlite").write_bytes(b"no database" * 100)
    (tmp_path / "notes.txt").write_text("no run")
    library = RunLibrary([tmp_path, tmp_path / "missing"])
    entries = {entry["name"]: entry for entry in library.entries()}
    assert set(entries) == {"old", "new", "damaged"}
    names = [entry["name"] for entry in library.entries()]
    assert names.index("new") < names.index("old")
    assert "problem" in entries["damaged"]
    old = entries["old"]
    assert old["slots"] == 40
    assert old["length"] == CONFIG.physical.region_length
    assert old["reward"] == pytest.approx(
        sum(slot / 7 for slot in range(1, 41) if slot % 10 or slot == 30) / 37
    )
    assert len(old["picture"]) == 40
    assert library.path_of(old["id"]) == tmp_path / "old.sqlite"
    assert library.path_of("0" * 16) is None
    (tmp_path / "old.sqlite").unlink()
    write_run(tmp_path / "old.sqlite", range(1, 11))
    assert next(e for e in library.entries() if e["name"] == "old")["slots"] == 10
    (tmp_path / "old.sqlite").unlink()
    assert [e["name"] for e in library.entries() if e["name"] == "old"] == []
    assert library.path_of(old["id"]) is None


def test_what_is_no_run_file_holds_nothing_up(tmp_path: Path) -> None:
    """A pipe would keep a reader waiting, and a device has no end."""
    write_run(tmp_path / "run.sqlite", range(1, 11))
    os.mkfifo(tmp_path / "pipe.sqlite")
    (tmp_path / "device.sqlite").symlink_to("/dev/zero")
    (tmp_path / "loop.sqlite").symlink_to(tmp_path / "loop.sqlite")
    (tmp_path / "folder.sqlite").mkdir()
    (tmp_path / "empty.sqlite").touch()
    (tmp_path / "secret.sqlite").symlink_to("/etc/passwd")
    entries = RunLibrary([tmp_path, tmp_path / "pipe.sqlite", Path("/dev/zero")]).entries()
    assert [entry["name"] for entry in entries if "problem" not in entry] == ["run"]
    assert all("root:" not in str(entry.get("problem")) for entry in entries)


def test_a_run_without_slots_is_listed(recorder: RunFileRecorder, tmp_path: Path) -> None:
    recorder.start()
    recorder.submit(Event(0, CLOCK, EventKind.POLICY, "moveucb"))
    recorder.close()
    (entry,) = RunLibrary([tmp_path]).entries()
    assert (entry["slots"], entry["reward"], entry["picture"]) == (0, None, [])


def test_values_of_a_foreign_file_are_checked() -> None:
    assert nested({"a": {"b": 1}}, "a", "b") == 1
    assert nested({"a": 3}, "a", "b") is None
    assert [numeric(value, 7.0) for value in (2, 2.5, True, "x", None, 1e300)] == [
        2.0,
        2.5,
        7.0,
        7.0,
        7.0,
        7.0,
    ]
