"""The SQLite file behind a recorder: how it is created, opened, and kept short."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from macontrol.config.model.errors import InputOutputError
from macontrol.controller.recording.records import Event, SlotRecord
from macontrol.controller.recording.runfile.header import RunHeader
from macontrol.controller.recording.runfile.lock import FileLock, failed
from macontrol.controller.recording.runfile.schema import (
    CREATE,
    INSERT_EVENT,
    INSERT_HEADER,
    INSERT_SLOT,
)

LOG_LIMIT_BYTES = 32 << 20
BUSY_S = 0.2


def copy_log(connection: sqlite3.Connection) -> bool:
    """Copy the log into the database without keeping the writer waiting, and sync both.

    What is committed meanwhile is copied in another go: only a log that was copied to its end
    is begun again, and so stays short. Returns whether it was.
    """
    for _ in range(5):
        _busy, length, copied = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        if copied >= length:
            return True
    return False


def open_run(path: Path) -> sqlite3.Connection:
    """A connection that writes an existing run file, for one thread at a time."""
    connection = sqlite3.connect(
        f"{path.resolve().as_uri()}?mode=rw",
        uri=True,
        isolation_level=None,
        timeout=BUSY_S,
        check_same_thread=False,
    )
    try:
        # Commits reach the page cache, copies of the log the disk: safe in a crash of ours at
        # once, in a power cut up to the last copy.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute(f"PRAGMA journal_size_limit = {LOG_LIMIT_BYTES}")
        # Reading opens the log: readers know by it that the run is not over.
        connection.execute("SELECT count(*) FROM header").fetchone()
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def create_run(path: Path, header: RunHeader) -> FileLock:
    """Make a run file that holds just the header, locked; the name appears when it is complete."""
    part = path.parent / f".{path.name}.{os.getpid()}.part"
    try:
        with suppress(FileNotFoundError):
            part.unlink()
        lock = FileLock(part, create=True)
    except OSError as error:
        raise failed(path, error) from error
    try:
        connection = sqlite3.connect(part, isolation_level=None)
        try:
            connection.execute("BEGIN")
            for statement in CREATE:
                connection.execute(statement)
            connection.executemany(INSERT_HEADER, header.rows())
            connection.execute("COMMIT")
            connection.execute("PRAGMA journal_mode = WAL")
        finally:
            connection.close()
        _give_name(part, path)
    except (OSError, sqlite3.Error, InputOutputError) as error:
        lock.release()
        raise (error if isinstance(error, InputOutputError) else failed(path, error)) from error
    finally:
        for end in ("", "-journal", "-wal", "-shm"):
            with suppress(OSError):
                part.with_name(part.name + end).unlink()
    return lock


def _give_name(part: Path, path: Path) -> None:
    """Move a file to a name, never onto another one."""
    taken = InputOutputError(
        f"{path}: there is a file already, and a run never overwrites one; choose another name"
    )
    try:
        os.link(part, path)
    except FileExistsError:
        raise taken from None
    except OSError:  # a file system without links, as on most memory cards for other machines
        if path.exists():
            raise taken from None
        part.rename(path)


# What SQLite and its binding raise for a record that no file could take.
DEFECTS = (
    sqlite3.IntegrityError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
    sqlite3.DataError,
    sqlite3.NotSupportedError,
    OverflowError,
    TypeError,
    ValueError,
)


def insert_singly(
    connection: sqlite3.Connection, slots: Sequence[SlotRecord], events: Sequence[Event]
) -> list[str]:
    """Insert record by record; returns what is wrong with those that cannot be."""
    bad: list[str] = []
    for statement, items in ((INSERT_SLOT, slots), (INSERT_EVENT, events)):
        for item in items:
            try:
                connection.execute(statement, item)
            except DEFECTS as error:
                bad.append(f"slot {item.slot}: {error}")
    return bad
