"""Which runs are kept, and that nothing else is ever removed."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from macontrol.config import load_config
from macontrol.config.model.errors import ConfigError
from macontrol.controller.recording.runfile.lock import FileLock
from macontrol.controller.recording.runfile.retention import (
    Keep,
    StoredRun,
    is_being_written,
    is_run_file,
    remove_run,
    stored_runs,
    surplus,
)
from support.sample_run import start_run, write_run

NOW, DAY = 1_700_000_000.0, 86400.0
RUNS = [
    StoredRun(Path(name), size, NOW - age * DAY)
    for name, size, age in (("a", 3_000_000, 0.1), ("b", 2_000_000, 1.5), ("c", 5_000_000, 9.0))
]


@pytest.mark.parametrize(
    ("keep", "expected"),
    [
        (Keep(), ""),
        (Keep(runs=3), ""),
        (Keep(runs=1), "bc"),
        (Keep(runs=0), "abc"),
        (Keep(days=1.0), "bc"),
        (Keep(days=1.5), "c"),
        (Keep(mb=5.0), "c"),
        (Keep(mb=4.9), "bc"),
        (Keep(mb=10.0), ""),
        (Keep(runs=2, days=1.0), "bc"),
        (Keep(runs=1, mb=100.0), "bc"),
    ],
)
def test_what_no_criterion_keeps_is_surplus(keep: Keep, expected: str) -> None:
    assert [str(run.path) for run in surplus(RUNS, keep, NOW)] == list(expected)


def test_the_config_says_what_to_keep() -> None:
    assert Keep.of(load_config().run).is_all
    config = load_config(assignments=["run.keep_runs=4", "run.keep_days=2.5"])
    assert Keep.of(config.run) == Keep(4, 2.5, None)
    for wrong in ("run.keep_runs=0", "run.keep_days=0", "run.keep_mb=-1", "run.keep_mb=none"):
        with pytest.raises(ConfigError, match=wrong.partition("=")[0]):
            load_config(assignments=[wrong])


def test_run_files_are_found_newest_first_with_what_belongs_to_them(tmp_path: Path) -> None:
    names = ("old", "new")
    for age, name in ((50, "old"), (10, "new")):
        path = write_run(tmp_path / name, range(1, 4))
        os.utime(path, (NOW - age, NOW - age))
    (tmp_path / "new-wal").write_bytes(b"x" * 77)
    os.utime(tmp_path / "new-wal", (NOW - 5, NOW - 5))
    (tmp_path / "notes.sqlite").write_text("not a run file")
    with closing(sqlite3.connect(tmp_path / "other.sqlite")) as connection:
        connection.execute("CREATE TABLE slots (slot)")
    found = stored_runs(tmp_path.iterdir())
    assert [run.path.name for run in found] == [*reversed(names)]
    assert found[0].last_written_s == NOW - 5
    assert found[0].size_bytes == (tmp_path / "new").stat().st_size + 77


def test_a_run_is_removed_with_all_its_files_and_nothing_else(tmp_path: Path) -> None:
    path, other = tmp_path / "run.sqlite", write_run(tmp_path / "run.sqlite-2", range(1, 4))
    write_run(path, range(1, 4))
    for end in ("-wal", "-shm", "-journal"):
        (tmp_path / f"run.sqlite{end}").write_bytes(b"")
    assert remove_run(path)
    assert list(tmp_path.iterdir()) == [other]
    assert not remove_run(path)


def test_a_run_that_is_being_written_is_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    # As in another process: this one holds the lock only, as closing a descriptor of the file
    # would drop the locks of its own database.
    start_run(path).close()
    lock = FileLock(path)
    assert is_being_written(path)
    assert not remove_run(path)
    assert path.exists()
    lock.release()
    assert not is_being_written(path)
    assert remove_run(path)


def test_what_is_not_a_run_file_is_not_removed(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run.sqlite", range(1, 4))
    (tmp_path / "link.sqlite").symlink_to(run)
    (tmp_path / "text.sqlite").write_text("x" * 5000)
    (tmp_path / "empty.sqlite").write_bytes(b"")
    (tmp_path / "folder.sqlite").mkdir()
    os.mkfifo(tmp_path / "pipe.sqlite")
    before = sorted(tmp_path.iterdir())
    for path in before:
        if path != run:
            assert not remove_run(path)
            assert is_run_file(path) == (path.name == "link.sqlite")
    assert not remove_run(tmp_path / "nothing")
    assert sorted(tmp_path.iterdir()) == before
