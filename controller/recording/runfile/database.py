"""The SQLite file behind a recorder: create it, open it, keep its log short."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path

from macontrol.config.model.errors import InputOutputError
from macontrol.controller.recording.runfile.header import RunHeader
from macontrol.controller.recording.runfile.lock import FileLock, failed
from macontrol.controller.recording.runfile.schema import CREATE, INSERT_HEADER, beside

LOG_LIMIT_BYTES = 32 << 20
BUSY_S = 0.2


def copy_log(connection: sqlite3.Connection) -> bool:
    """Copy the log into the database without delay for the writer, and sync both.

    Another attempt copies what was committed meanwhile: SQLite starts the log again, and keeps it
    short, only after a complete copy. Return whether the copy was complete.
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
        # Commits reach the page cache, copies of the log reach the disk: a crash of the process
        # loses nothing that is committed, a power cut what came after the last copy.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute(f"PRAGMA journal_size_limit = {LOG_LIMIT_BYTES}")
        # Reading opens the log, which shows readers that the run is not over.
        connection.execute("SELECT count(*) FROM header").fetchone()
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def create_run(path: Path, header: RunHeader) -> FileLock:
    """Create a locked run file with the header only; its name appears when it is complete."""
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
                beside(part, end).unlink()
    return lock


def _give_name(part: Path, path: Path) -> None:
    """Rename a file, never onto another one."""
    taken = InputOutputError(
        f"{path}: the file exists, and a run does not overwrite files", "choose another name"
    )
    try:
        os.link(part, path)
    except FileExistsError:
        raise taken from None
    except OSError:  # a file system without links, as on most memory cards
        if path.exists():
            raise taken from None
        part.rename(path)
