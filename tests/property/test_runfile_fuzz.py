"""Run files with random damage: a run starts, and a reader gets a DataError or a run.

Each file is a real run with some bytes changed, cut off or added, or with its tables changed by
SQL. `MACONTROL_FUZZ_FILES` sets how many are tried; file number N is the same in every run.
"""

from __future__ import annotations

import io
import os
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from macontrol.commands.export import write_arrays, write_events, write_slots
from macontrol.commands.export_netcdf import write_netcdf
from macontrol.config.model.errors import DataError, InputOutputError
from macontrol.controller.policies.registry import make_policy
from macontrol.controller.recording.runfile import (
    NoResume,
    OpenRun,
    Resume,
    Sample,
    find_resume,
    read_run,
    set_aside,
)
from macontrol.controller.recording.runfile.retention import stored_runs
from macontrol.controller.recording.runfile.schema import SLOT_COLUMNS
from macontrol.exported_map import map_of_run, measured_map
from macontrol.reports.comparison import differences, entries_of
from macontrol.reports.comparison_report import comparison_page
from macontrol.reports.listing import line_of
from macontrol.reports.recorded import read_recorded
from macontrol.reports.run_report import report
from macontrol.sim.world.partial import fill
from support.sample_run import CONFIG, LAST_START, WALL, write_run

FILES = int(os.environ.get("MACONTROL_FUZZ_FILES", "240"))
# Each test tries its share, so that they can run side by side.
SHARES = 8

TEXTS = (
    *("{}", "[]", "null", "true", "17", "-1", "1e400", "NaN", "-Infinity", '""', '"text"', "{"),
    *('{"position": []}', "[[]]", "[[1, 2]]", '[["1", 2, 3]]', '[[1, 2, "3"]]', "[null]"),
    *("1" + 400 * "0", 5000 * "[", '"\\ud800"', '{"version": 1}', "9" * 5000, "'", "\0"),
    *('{"position": [1, 2], "reward": [1, null]}', '{"position": {}, "reward": {}}'),
)
VALUES = (
    *("NULL", "''", "'text'", "'nan'", "'1.5'", "x'00ff'", "x'312e35'", "9e999", "-9e999", "1e308"),
    *("0", "-1", "1", "2.5", str(2**53 + 1), str(2**63 - 1), str(-(2**63)), "CAST(x'ff' AS TEXT)"),
    *("zeroblob(200000)", "hex(zeroblob(2000))"),
)
KEYS = (
    *("config", "survey", "window", "version", "stage", "started_wall_s", "started_clock_s"),
    *("seed", "policy", "backend", "sigma_f2", "clock", "resumed_from", "pid", "host", "boot_id"),
    "identity",
)
COLUMNS = tuple(column.stored_name for column in SLOT_COLUMNS)
EVENT_COLUMNS = ("number", "slot", "time_s", "kind", "detail", "value")
TABLES = ("header", "slots", "events")
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"


def change_header(rng: random.Random) -> str:
    key, text = rng.choice(KEYS), rng.choice(TEXTS).replace("'", "''").replace("\0", "")
    value = rng.choice((f"'{text}'", rng.choice(VALUES), "substr(value, 2)", "value || value"))
    return f"UPDATE OR IGNORE header SET value = {value} WHERE key = '{key}'"


def change_slots(rng: random.Random) -> str:
    where = rng.choice(("", f"WHERE slot = {rng.randint(20, 41)}", "WHERE slot = 40"))
    return f"UPDATE OR IGNORE slots SET {rng.choice(COLUMNS)} = {rng.choice(VALUES)} {where}"


def change_events(rng: random.Random) -> str:
    return f"UPDATE OR IGNORE events SET {rng.choice(EVENT_COLUMNS)} = {rng.choice(VALUES)}"


def change_tables(rng: random.Random) -> str:
    table, column = rng.choice(TABLES), rng.choice(COLUMNS)
    listed = ", ".join(f"i AS {name}" for name in COLUMNS)
    return rng.choice(
        (
            f"DROP TABLE {table}",
            f"DELETE FROM {table}",
            f"ALTER TABLE slots DROP COLUMN {column}",
            f"ALTER TABLE slots RENAME COLUMN {column} TO other",
            f"ALTER TABLE {table} RENAME TO other",
            f"ALTER TABLE {table} RENAME TO other; CREATE VIEW {table} AS SELECT * FROM other",
            f"DROP TABLE slots; CREATE VIEW slots AS {ENDLESS} SELECT {listed} FROM n",
            "ALTER TABLE slots RENAME TO other; CREATE TABLE slots AS SELECT * FROM other",
            f"CREATE TABLE other ({', '.join(COLUMNS)}); INSERT INTO other ({column}) "
            f"VALUES ({rng.choice(VALUES)}); DROP TABLE slots; ALTER TABLE other RENAME TO slots",
            f"PRAGMA user_version = {rng.choice((-1, 0, 2, 2**31 - 1))}",
            f"PRAGMA application_id = {rng.choice((0, -1))}",
            f"DELETE FROM header WHERE key = '{rng.choice(KEYS)}'",
        )
    )


def change_by_sql(path: Path, rng: random.Random) -> None:
    kinds: tuple[Callable[[random.Random], str], ...] = (
        *(change_header, change_header, change_slots, change_slots),
        *(change_events, change_tables),
    )
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for _ in range(rng.choice((1, 1, 2, 3))):
            with suppress(sqlite3.Error):
                connection.executescript(rng.choice(kinds)(rng))
        with suppress(sqlite3.Error):
            connection.execute("PRAGMA journal_mode = DELETE")


def change_bytes(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice((1, 2, 4, 16))):
        at = rng.randrange(len(changed)) if rng.random() < 0.7 else rng.randrange(200)
        changed[at : at + rng.choice((1, 1, 2, 8))] = rng.randbytes(rng.choice((1, 1, 2, 8)))
    page, other = rng.randrange(len(changed) // 4096), rng.randrange(len(changed) // 4096)
    match rng.randrange(6):
        case 0:
            del changed[rng.randrange(len(changed)) :]
        case 1:
            changed[page * 4096 : page * 4096 + 4096] = content[other * 4096 : other * 4096 + 4096]
        case 2:
            changed += rng.randbytes(rng.randrange(1, 9000))
    return bytes(changed)


@pytest.fixture(scope="module")
def wholes(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    folder = tmp_path_factory.mktemp("whole")
    window = tuple(Sample(slot, 1.0, 2.0) for slot in range(3, 10))
    young = write_run(folder / "young.sqlite", range(20, 41), window=window)
    return [young.read_bytes(), write_run(folder / "run.sqlite", range(1, 41)).read_bytes()]


def check_resume(path: Path) -> None:
    """A run starts: from what a run can have written, or cold."""
    found = find_resume(path, CONFIG, WALL + LAST_START + 0.03)
    if isinstance(found, NoResume):
        assert found.reason.encode()
        return
    assert isinstance(found, Resume)
    policy = make_policy(CONFIG, found.survey)
    for sample in found.samples:
        policy.observe(*sample)
    policy.resume(found.target)
    decision = policy.decide(found.last_slot + 1, found.next_position)
    assert 0 <= decision.position <= CONFIG.physical.region_length


def check_reading(path: Path) -> None:
    """Reading raises no other error than a DataError."""
    with suppress(DataError):
        run = read_run(path)
        assert {len(column) for column in run.slots.values()} == {len(run.slots["slot"])}
        assert isinstance(run.header.started.isoformat(), str)
    for write in (write_slots, write_events):
        with suppress(DataError), OpenRun(path) as opened:
            write(io.StringIO(), opened)
    with suppress(DataError), OpenRun(path) as opened:
        write_arrays(io.BytesIO(), opened)
    with suppress(DataError), OpenRun(path) as opened:
        map_of_run(opened, 2)
    with suppress(DataError), OpenRun(path) as opened:
        world = measured_map(opened, opened.header.config, 50)
        fill(world, opened.header.config)


def check_reports(path: Path) -> None:
    """The list of runs, a report and an export raise no other error than a DataError."""
    for stored in stored_runs([path]):
        assert line_of(stored).size_bytes > 0
    with suppress(DataError):
        recorded = read_recorded(path)
        assert report(recorded).endswith("</html>\n")
        if recorded.length:
            entries = entries_of([recorded, recorded])
            assert comparison_page(entries, differences(entries)).endswith("</html>\n")
    with suppress(DataError), OpenRun(path) as opened:
        write_netcdf(io.BytesIO(), opened)


@pytest.mark.fault("last-run-damaged")
@pytest.mark.timeout(120 + FILES // SHARES)
@pytest.mark.parametrize("share", range(SHARES))
def test_any_content_of_a_run_file(share: int, wholes: list[bytes], tmp_path: Path) -> None:
    for number in range(share, FILES, SHARES):
        rng = random.Random(number)
        path = tmp_path / f"run{number}.sqlite"
        whole = rng.choice(wholes)
        if rng.random() < 0.5:
            path.write_bytes(change_bytes(whole, rng))
        else:
            path.write_bytes(whole)
            change_by_sql(path, rng)
        try:
            check_resume(path)
            check_reading(path)
            check_reports(path)
            with suppress(InputOutputError):  # it may have ceased to be one of ours
                set_aside(path)
        except Exception as error:
            raise AssertionError(f"file {number}: {error!r}") from error
        for left in tmp_path.iterdir():
            left.unlink()
