"""The SQLite file behind a recorder: create it, open it, write records, keep its log short."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeAlias

from macontrol.config.model.errors import InputOutputError
from macontrol.controller.recording.records import (
    Event,
    Item,
    LateReward,
    ReferenceReading,
    SlotRecord,
)
from macontrol.controller.recording.runfile.header import RunHeader
from macontrol.controller.recording.runfile.lock import FileLock, failed
from macontrol.controller.recording.runfile.schema import (
    CREATE,
    INSERT_EVENT,
    INSERT_HEADER,
    beside,
    completion_of,
    create_slots,
    first_values,
    insert_slot,
    slot_row,
)

LOG_LIMIT_BYTES = 32 << 20
BUSY_S = 0.2
COPY_INTERVAL_S = 5.0
"""A power cut costs at most the records of this time."""
Later: TypeAlias = LateReward | ReferenceReading
_LATER = (LateReward, ReferenceReading)
# What SQLite and its binding raise for a record that no file can store.
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


class LogCopier:
    """Copies the log regularly, from `start` to `stop`, in a thread of its own.

    A copy syncs the disk, which takes seconds on a slow card; the writer does not wait for it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._files = 1
        """How many files had this name: a deleted one is replaced by a new one."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name="run-file-log", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """End the thread, and wait for it within this time."""
        self._stopping.set()
        self._thread.join(timeout_s)

    def reopen(self) -> None:
        """Continue with the new file of this name."""
        self._files += 1

    def _work(self) -> None:
        connection: sqlite3.Connection | None = None
        files = self._files
        while not self._stopping.wait(COPY_INTERVAL_S):
            if files != self._files:
                _close(connection)
                connection = None
            files = self._files
            try:
                connection = connection or open_run(self._path)
                copy_log(connection)
            except sqlite3.Error:  # the log grows until the writer has the same trouble
                _close(connection)
                connection = None
        _close(connection)


def _close(connection: sqlite3.Connection | None) -> None:
    if connection is not None:
        with suppress(sqlite3.Error):
            connection.close()


class Written(NamedTuple):
    """The result of a transaction."""

    stored: int
    """Records that are in the file now, including late rewards that waited for their slot."""
    lost: int
    defects: Sequence[str]
    """What is wrong with the records that no file can store."""


class RecordWriter:
    """Stores records, and holds late rewards back until the row of their slot is stored."""

    def __init__(self) -> None:
        self.early: list[Later] = []
        self._last_slot = 0
        self._insert = insert_slot({})

    def write(self, connection: sqlite3.Connection, chunk: Sequence[Item]) -> Written:
        """Store records in one transaction.

        An error that is raised here is due to the disk, not to the records: try again later.
        """
        slots = [item for item in chunk if type(item) is SlotRecord]
        events = [item for item in chunk if type(item) is Event]
        others = [item for item in chunk if type(item) not in (SlotRecord, Event)]
        late = [item for item in others if isinstance(item, _LATER)]
        defects = [f"{item!r} is not a record" for item in others if type(item) not in _LATER]
        early, lost = self.early, 0
        connection.execute("BEGIN IMMEDIATE")
        try:
            try:
                self._prepare(connection, slots)
                connection.executemany(self._insert, map(slot_row, slots))
                connection.executemany(INSERT_EVENT, events)
            except DEFECTS:  # an impossible value or slot number: find it, store the others
                connection.execute("ROLLBACK")
                connection.execute("BEGIN IMMEDIATE")
                self._prepare(connection, slots)
                defects += self._insert_singly(connection, slots, events)
            if slots:
                self._last_slot = slots[-1].slot
            if late or early:
                early, lost = self._complete(connection, [*early, *late])
            connection.execute("COMMIT")
        except Exception:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise
        newly_held = len(early) - len(self.early)
        self.early = early
        lost += len(defects)
        return Written(len(chunk) - lost - newly_held, lost, defects)

    def _prepare(self, connection: sqlite3.Connection, slots: Sequence[SlotRecord]) -> None:
        """Before the first slot of a file: declare the table again, with the slot's values."""
        if slots and not connection.execute("SELECT EXISTS (SELECT * FROM slots)").fetchone()[0]:
            first = first_values(slots[0])
            connection.execute("DROP TABLE slots")
            connection.execute(create_slots(first))
            self._insert = insert_slot(first)

    def _complete(
        self, connection: sqlite3.Connection, late: Iterable[Later]
    ) -> tuple[list[Later], int]:
        """Complete the rows of late rewards; return those whose row is not stored yet.

        The second value counts those whose row was lost, or that no file can store.
        """
        early: list[Later] = []
        lost = 0
        for item in late:
            try:
                rows = connection.execute(*completion_of(item)).rowcount
            except DEFECTS:
                rows, lost = 1, lost + 1
            if rows == 0 and item.slot > self._last_slot:
                early.append(item)
            elif rows == 0:
                lost += 1
        return early, lost

    def _insert_singly(
        self, connection: sqlite3.Connection, slots: Iterable[SlotRecord], events: Iterable[Event]
    ) -> list[str]:
        """Insert record by record; return what is wrong with those that cannot be stored."""
        defects: list[str] = []
        rows: list[tuple[str, int, Sequence[object]]] = [
            *((self._insert, record.slot, slot_row(record)) for record in slots),
            *((INSERT_EVENT, event.slot, event) for event in events),
        ]
        for statement, slot, row in rows:
            try:
                connection.execute(statement, tuple(row))
            except DEFECTS as error:
                defects.append(f"slot {slot}: {error}")
        return defects
