"""Read run files in any state and format, without changing them."""

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from macontrol import __version__
from macontrol.config import load_config
from macontrol.config.model.errors import DamagedFileError, DataError, NoInputError
from macontrol.controller.recording.records import Event, EventKind, ReferenceReading, SlotRecord
from macontrol.controller.recording.runfile import OpenRun, RunFileRecorder, RunHeader, read_run
from macontrol.controller.recording.runfile.schema import FORMAT, SLOT_COLUMNS, column_rows
from macontrol.hal.probe import Signal

CONFIG = load_config()


def header() -> RunHeader:
    return RunHeader.of(
        CONFIG,
        backend="sim",
        stage="sim",
        survey=None,
        sigma_f2=None,
        started_wall_s=1_700_000_000.0,
        started_clock_s=0.0,
    )


def record(slot: int) -> SlotRecord:
    numbers = {name: 0.5 for name in SlotRecord._fields}
    truths = {"on_time": True, "switched": False, "transit": True}
    words = {"invalid": "gap", "level_unit": "dBm"}
    return SlotRecord(**{**numbers, **truths, **words, "slot": slot})  # type: ignore[arg-type]


def write(path: Path, slots: int = 3, *, close: bool = True) -> RunFileRecorder:
    file = RunFileRecorder(path, header(), flush_s=0.01)
    file.start()
    for slot in range(1, slots + 1):
        file.submit(record(slot))
    file.submit(Event(1, 0.1, EventKind.START, "slot 1"))
    if close:
        file.close()
    return file


def leave_killed(path: Path) -> None:
    """What a recorder that was killed leaves: a file, and a log with all the records."""
    code = f"""
import importlib.util, os, sys, time
from pathlib import Path
spec = importlib.util.spec_from_file_location("here", {__file__!r})
here = importlib.util.module_from_spec(spec)
spec.loader.exec_module(here)
file = here.write(Path(sys.argv[1]), close=False)
while file.pending or file.written < 4: time.sleep(0.01)
os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-c", code, str(path)])
    assert done.returncode == -signal.SIGKILL
    assert path.with_name(path.name + "-wal").stat().st_size > 0


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def test_the_slot_table_has_the_fields_of_a_record_in_their_order() -> None:
    """Except for the last two, which only the statistics need."""
    names = [column.name for column in SLOT_COLUMNS]
    later = ("late", *ReferenceReading._fields[1:])
    assert [name for name in names if name not in later] == [*SlotRecord._fields[:-2]]
    assert tuple(c.name for c in SLOT_COLUMNS if c.is_later) == ReferenceReading._fields[1:]
    assert SlotRecord._fields[-2:] == ("origin", "homings")
    assert set(Signal._fields) <= set(names)


def test_every_column_has_a_meaning_and_times_and_positions_have_a_unit() -> None:
    rows = column_rows()
    assert {table for table, *_ in rows} == {"slots", "events"}
    assert all(meaning for *_, meaning in rows)
    units = {name: unit for _, name, unit, _ in rows}
    assert {units[name] for name in units if name.endswith("_s")} == {"s"}
    assert units["position"] == units["target"] == "wavelengths"


def test_reading_leaves_nothing_beside_a_finished_file(tmp_path: Path) -> None:
    write(tmp_path / "run.sqlite")
    before = (tmp_path / "run.sqlite").read_bytes()
    run = read_run(tmp_path / "run.sqlite")
    assert run.slots["slot"].tolist() == [1, 2, 3]
    assert run.slots["invalid"].tolist() == ["gap"] * 3
    assert run.slots["on_time"].dtype == np.bool_
    assert list(run.events) == [Event(1, 0.1, EventKind.START, "slot 1", None)]
    assert os.listdir(tmp_path) == ["run.sqlite"]
    assert (tmp_path / "run.sqlite").read_bytes() == before


def test_a_run_without_slots_reads_as_empty(tmp_path: Path) -> None:
    write(tmp_path / "run.sqlite", 0)
    with OpenRun(tmp_path / "run.sqlite") as run:
        assert (run.count, run.last_row(), run.last_samples(5)) == (0, None, [])
        assert all(len(column) == 0 for column in run.columns().values())


def test_a_running_run_is_read_as_of_one_moment(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    file = write(path, close=False)
    try:
        while file.pending or file.written < 4:
            pass
        with OpenRun(path) as run:
            file.submit(record(4))
            while file.written < 5:
                pass
            assert run.count == len(run.columns(["slot"])["slot"]) == len(list(run.rows())) == 3
        assert read_run(path).slots["slot"].tolist() == [1, 2, 3, 4]
    finally:
        file.close()


def test_a_killed_run_is_read_with_its_log_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    leave_killed(path)
    log = path.with_name("run.sqlite-wal").read_bytes()
    assert read_run(path).slots["slot"].tolist() == [1, 2, 3]
    assert path.with_name("run.sqlite-wal").read_bytes() == log


@pytest.mark.parametrize("killed", [False, True], ids=["finished", "killed"])
def test_runs_are_read_from_read_only_media(tmp_path: Path, killed: bool) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"may not mount a disk of its own: {done.stderr.strip()}")
    try:
        path = folder / "run.sqlite"
        if killed:
            leave_killed(path)
            path.with_name("run.sqlite-shm").unlink()
        else:
            write(path)
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        assert read_run(path).slots["slot"].tolist() == [1, 2, 3]
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_an_older_format_reads_with_defaults_for_missing_columns(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    write(path)
    change(
        path,
        "PRAGMA user_version = 0",
        "ALTER TABLE slots DROP COLUMN late",
        "DELETE FROM header WHERE key IN ('window', 'survey', 'boot_id', 'clock', 'sqlite')",
        "UPDATE header SET value = '\"0.0.9\"' WHERE key = 'version'",
    )
    run = read_run(path)
    assert (run.format, run.header.version) == (0, "0.0.9")
    assert run.slots["late"].tolist() == [False] * 3
    assert run.slots["late"].dtype == np.bool_
    with OpenRun(path) as opened:
        assert list(opened.rows(["late"])) == [(0,)] * 3


def test_a_file_of_the_first_format_has_no_level_and_no_snr(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    write(path)
    dropped = [f"ALTER TABLE slots DROP COLUMN {name}" for name in Signal._fields]
    change(path, "PRAGMA user_version = 1", *dropped)
    run = read_run(path)
    assert run.format == 1
    assert run.slots["level_unit"].tolist() == [""] * 3
    for name in set(Signal._fields) - {"level_unit"}:
        assert np.isnan(run.slots[name]).all()
    assert run.slots["reward"].tolist() == [0.5] * 3
    with OpenRun(path) as opened:
        last = opened.last_row()
    assert last is not None
    assert last["snr_db"] is None


def test_a_file_of_the_third_format_has_no_reference(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    write(path)
    names = ReferenceReading._fields[1:]
    dropped = [f"ALTER TABLE slots DROP COLUMN {name}" for name in names]
    change(path, "PRAGMA user_version = 3", *dropped)
    run = read_run(path)
    assert run.format == 3
    assert np.isnan(run.slots["reference_db"]).all()
    assert run.slots["reference_unit"].tolist() == [""] * 3


def test_a_file_of_this_format_without_a_column_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    write(path)
    change(path, "ALTER TABLE slots DROP COLUMN snr_db")
    with pytest.raises(DataError, match="no column snr_db"):
        read_run(path)


def test_a_newer_format_is_refused_with_the_version_that_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    write(path)
    change(
        path,
        f"PRAGMA user_version = {FORMAT + 6}",
        "UPDATE header SET value = '\"3.1.4\"' WHERE key = 'version'",
        "DROP TABLE slots",
    )
    with pytest.raises(DataError) as refused:
        read_run(path)
    assert f"macontrol 3.1.4 in run-file format {FORMAT + 6}" in refused.value.detail
    assert refused.value.fix == "use macontrol 3.1.4 or newer"


def test_an_unknown_config_names_the_version_that_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    write(path)
    change(path, "UPDATE header SET value = '{\"physical\": {}}' WHERE key = 'config'")
    run = read_run(path)
    assert len(run.slots["slot"]) == 3
    with pytest.raises(DataError, match=rf"use macontrol {__version__}, which wrote it"):
        _ = run.header.config


def test_a_config_of_an_earlier_version_gets_its_newer_settings(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    write(path)
    change(
        path,
        "UPDATE header SET value = json_remove(value, '$.channel.sub_ray_phases') "
        "WHERE key = 'config'",
    )
    assert read_run(path).header.config == CONFIG


def test_an_event_of_an_unknown_kind_is_kept_as_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    write(path)
    change(path, "UPDATE events SET kind = 'eclipse', detail = 'total'")
    (event,) = read_run(path).events
    assert (event.kind, event.detail) == (EventKind.WARNING, "eclipse: total")


@pytest.mark.parametrize("content", [b"", b"not a database at all\n" * 100, b"SQLite format 3\0"])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(DataError, match="is not a run file of macontrol"):
        read_run(path)


def test_other_databases_and_places_are_refused(tmp_path: Path) -> None:
    change(tmp_path / "other.db", "CREATE TABLE slots (slot INTEGER PRIMARY KEY)")
    with pytest.raises(DataError, match="is not a run file of macontrol"):
        read_run(tmp_path / "other.db")
    with pytest.raises(DataError, match="is a folder"):
        read_run(tmp_path)
    with pytest.raises(NoInputError):
        read_run(tmp_path / "nothing.sqlite")


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE header SET value = '{' WHERE key = 'seed'",
        "DELETE FROM header WHERE key = 'config'",
        "DROP TABLE header",
        "DROP TABLE slots",
        "ALTER TABLE slots DROP COLUMN reward",
        "UPDATE events SET detail = CAST(x'ff' AS TEXT)",
    ],
)
def test_damage_is_reported_as_damage(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "run.sqlite"
    write(path)
    change(path, damage)
    with pytest.raises(DamagedFileError):
        read_run(path)


def test_overwritten_and_missing_pages_are_reported_as_damage(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    write(path, 2000)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DamagedFileError):
        read_run(path)
    path.write_bytes(whole[:4096] + b"\xa5" * (len(whole) - 4096))
    with pytest.raises(DamagedFileError):
        read_run(path)


def test_a_file_without_read_permission_is_not_an_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.sqlite"
    write(path)
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may read anything
    with pytest.raises(NoInputError):
        read_run(path)


VIEW = "ALTER TABLE {0} RENAME TO other; CREATE VIEW {0} AS SELECT * FROM other"
ENDLESS = (
    "DROP TABLE events; CREATE VIEW events AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL "
    "SELECT i + 1 FROM n) SELECT i AS number, i AS slot, 0.0 AS time_s, 'start' AS kind, "
    "'' AS detail, 0.0 AS value FROM n"
)


@pytest.mark.fault("last-run-damaged")
@pytest.mark.parametrize(
    "damage",
    [
        *(
            f"UPDATE slots SET {name} = {value} WHERE slot = 2"
            for name, value in [
                ("reward", "'text'"),
                ("reward", "'nan'"),
                ("position", "x'312e35'"),
                ("on_time", "'text'"),
                ("invalid", "x'00'"),
                ("invalid", "hex(zeroblob(60))"),
            ]
        ),
        *(
            f"UPDATE events SET {name} = {value}"
            for name, value in [("slot", "NULL"), ("time_s", "'text'"), ("detail", "NULL")]
        ),
        *(
            f"UPDATE header SET value = {value} WHERE key = '{key}'"
            for key, value in [
                ("seed", "'-1'"),
                ("seed", "'1e9'"),
                ("seed", f"'{2**63}'"),
                ("survey", "'{}'"),
                ("survey", "'[]'"),
                ("version", "'{'"),
                ("version", "'17'"),
                ("stage", "'null'"),
                ("stage", "'\"\\ud800\"'"),
                ("host", "'[]'"),
                ("window", "'[[1, 2.0]]'"),
                ("config", "'[]'"),
                ("config", "x'7b7d'"),
                ("pid", "x'37'"),
                ("host", "hex(zeroblob(8400000))"),
            ]
        ),
        *(VIEW.format(table) for table in ("header", "slots", "events")),
        ENDLESS,
        "DROP TABLE events",
    ],
    ids=lambda damage: damage[:60],
)
def test_values_that_no_run_writes_are_damage(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "run.sqlite"
    write(path)
    change(path, *damage.split("; "))
    with pytest.raises(DamagedFileError):
        read_run(path)


@pytest.mark.parametrize("version", ["{", "17", "", 2000 * "["])
def test_a_newer_format_is_refused_whatever_its_version_is(tmp_path: Path, version: str) -> None:
    path = tmp_path / "run.sqlite"
    write(path)
    change(
        path,
        f"PRAGMA user_version = {FORMAT + 1}",
        f"UPDATE header SET value = '{version}' WHERE key = 'version'",
    )
    with pytest.raises(DataError, match=f"run-file format {FORMAT + 1}"):
        read_run(path)


def test_large_slot_numbers_are_stored_exactly(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    write(path)
    change(path, f"UPDATE slots SET slot = {2**62 + 1} WHERE slot = 3")
    assert read_run(path).slots["slot"].tolist() == [1, 2, 2**62 + 1]
