"""The recorder of a run: takes records from the slot thread, and writes them elsewhere.

Two threads stand behind it. The writer wakes a few times a second and commits what has come in;
in WAL mode that only appends to the page cache, so what is committed outlives the process. The
keeper copies the log into the database and syncs it, which on a slow card can take seconds: the
writer does not wait for it. A disk that is full, read-only or gone stops neither; records wait in
memory, as many as may, and what had to be dropped is counted.
"""

from __future__ import annotations

import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from macontrol.config.files.free_space import FreeSpace
from macontrol.config.model.errors import InputOutputError
from macontrol.controller.recording.records import Event, LateReward, Recorder, SlotRecord
from macontrol.controller.recording.runfile.database import (
    BUSY_S,
    DEFECTS,
    LOG_LIMIT_BYTES,
    copy_log,
    create_run,
    insert_singly,
    open_run,
)
from macontrol.controller.recording.runfile.header import RunHeader
from macontrol.controller.recording.runfile.lock import FileLock, failed
from macontrol.controller.recording.runfile.schema import (
    COMPLETE_SLOT,
    INSERT_EVENT,
    INSERT_SLOT,
)

Item: TypeAlias = SlotRecord | Event | LateReward

# As many records are kept in memory while they cannot be written; about 100 MB.
KEPT = 200_000
# A run without a clock waits for the writer beyond so many records or seconds. A slot thread that
# never sleeps leaves the writer a row every switch of threads, so it has to be waited for.
AHEAD = 20_000
AHEAD_S = 0.4
# Rows a transaction: so a nearly full disk still takes what fits, and no transaction is long.
CHUNK = 5_000
RETRY_S = 1.0
# How often the log is copied and synced: what a power cut may cost.
KEEP_S = 5.0


class RunFileRecorder(Recorder):
    """Writes one run into one file. `submit` is for the slot thread; the rest is not.

    `on_problem` is told when recording stops and when it goes on, in the recorder's own thread;
    an event that it hands over is in the file then, as soon as there is room.
    """

    def __init__(
        self,
        path: Path | str,
        header: RunHeader,
        *,
        flush_s: float = 0.25,
        on_problem: Callable[[str], None] | None = None,
        room: FreeSpace | None = None,
    ) -> None:
        self.path = Path(path)
        self._room = room
        self.header = header
        self._log = self.path.with_name(self.path.name + "-wal")
        self.written = 0
        """Records that are in the file: slots, events and late rewards."""
        self.problems = 0
        """How often something went wrong, each told once."""
        self._flush_s = flush_s
        self._on_problem = on_problem
        self._queue: queue.SimpleQueue[Item] = queue.SimpleQueue()
        self._put = self._queue.put
        self._size = self._queue.qsize
        self._refused = 0  # counted by the slot thread, …
        self._dropped = 0  # … and by the writer: no count has two owners
        self._waiting: list[Item] = []
        self._early: list[LateReward] = []
        self._last_slot = 0
        self._trouble_since: float | None = None
        self._dropped_before = 0
        self._level_at = time.monotonic()  # when all that had been handed over was written
        self._copy_beyond = LOG_LIMIT_BYTES
        self._gone = False
        self._deleted = 0
        self._begun = 1
        """How many files this recorder has begun: one, and one for each that was deleted."""
        self._bad_told = False
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._keep_now = threading.Event()
        self._give_up_at = 0.0
        self._is_abandoned = False
        """Whether nobody waits for the writer any more, as the disk hangs at the end."""
        self._lock: FileLock | None = None
        self._connection: sqlite3.Connection | None = None
        self._writer = threading.Thread(target=self._write, name="run-file-writer", daemon=True)
        self._keeper = threading.Thread(target=self._keep, name="run-file-keeper", daemon=True)

    def start(self) -> None:
        """Create the file with its header, and begin to write; InputOutputError if that fails."""
        self._lock = create_run(self.path, self.header)
        try:
            self._connection = open_run(self.path)
        except sqlite3.Error as error:
            self._lock.release()
            raise failed(self.path, error) from error
        self._writer.start()
        self._keeper.start()

    def submit(self, item: Item) -> None:
        """Take a record from the slot thread: returns at once, whatever the disk does."""
        if self._size() < KEPT:
            self._put(item)
        else:  # the writer hangs in the disk: what came first is kept
            self._refused += 1

    @property
    def lost(self) -> int:
        """Records that are not in the file and will never be."""
        return self._refused + self._dropped + (self.pending if self._is_abandoned else 0)

    @property
    def pending(self) -> int:
        """Records on their way to the file."""
        return self._size() + len(self._waiting) + len(self._early)

    def throttle(self) -> None:
        """Wait for a writer that is behind, so that a run without a clock outruns no disk.

        Never on a wall clock, and not for a disk in trouble: control goes on.
        """
        now = time.monotonic()
        if now - self._level_at > AHEAD_S or self.pending > AHEAD:
            while self._level_at < now and self._trouble_since is None and self._writer.is_alive():
                self._wake.set()
                time.sleep(0.001)

    def close(self, timeout: float = 5.0) -> None:
        """Write what is left, make one single file of it, and let go of it."""
        if self._lock is None:
            return
        self._give_up_at = time.monotonic() + timeout
        self._stopping.set()
        self._wake.set()
        self._writer.join(timeout + 2 * BUSY_S)
        if self._writer.is_alive():  # it goes on, and keeps the lock, as long as the process lives
            self._is_abandoned = True
            if self.pending:
                self._report(
                    f"{self.path}: the disk did not answer within {timeout:g} s; "
                    f"{self.pending} records may be lost"
                )
            return
        self._lock.release()
        self._lock = None

    # What follows runs in the writer's thread.

    def _write(self) -> None:
        while not self._stopping.is_set():
            self._wake.wait(self._flush_s if self._trouble_since is None else RETRY_S)
            self._wake.clear()
            self._round()
        self._round()
        while (self._waiting or self._size()) and (left := self._give_up_at - time.monotonic()) > 0:
            if self._room is not None and self._room.shortage():
                break  # room does not come by waiting
            if self._trouble_since is not None:
                time.sleep(min(RETRY_S, left))
            self._round()
        self._finish()

    def _round(self) -> None:
        """Take over what has come in, commit it, and keep what cannot be within bounds."""
        self._take()
        if self._has_place():
            self._flush()
        if not self._waiting:
            self._level_at = time.monotonic()
        self._check_log()
        excess = len(self._waiting) - KEPT
        if excess > 0:  # the newest are what a restart needs
            self._dropped += excess
            del self._waiting[:excess]

    def _take(self) -> None:
        take = self._queue.get_nowait
        self._waiting.extend([take() for _ in range(self._size())])

    def _flush(self) -> None:
        while self._waiting:
            if self._room is not None and (shortage := self._room.shortage()):
                self._begin_trouble(shortage)
                return
            chunk = self._waiting[:CHUNK]
            try:
                refused = self._commit(chunk)
            except Exception as error:  # whatever it is, it must not end the writer's thread
                self._begin_trouble(error)
                return
            del self._waiting[: len(chunk)]
            self.written += len(chunk) - refused
            self._end_trouble()

    def _commit(self, chunk: Sequence[Item]) -> int:
        """Write the records in one transaction; returns how many no file could ever take.

        An error that leaves here is not the records' but the disk's: to be tried again.
        """
        slots = [item for item in chunk if type(item) is SlotRecord]
        events = [item for item in chunk if type(item) is Event]
        late = [item for item in chunk if type(item) is LateReward]
        if self._connection is None:
            self._connection = open_run(self.path)
        connection, early, dropped = self._connection, self._early, 0
        bad = [f"{item!r} is no record" for item in chunk if type(item) not in _RECORDS]
        connection.execute("BEGIN IMMEDIATE")
        try:
            try:
                connection.executemany(INSERT_SLOT, slots)
                connection.executemany(INSERT_EVENT, events)
            except DEFECTS:  # a value or a slot number that cannot be: find it, keep the others
                connection.execute("ROLLBACK")
                connection.execute("BEGIN IMMEDIATE")
                bad += insert_singly(connection, slots, events)
            if slots:
                self._last_slot = slots[-1].slot
            if late or early:
                early, dropped = self._complete(connection, [*early, *late])
            connection.execute("COMMIT")
        except Exception:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise
        # Early ones are pending still, and those that waited have now been written.
        settled = len(self._early) - len(early)
        self._early = early
        if bad and not self._bad_told:  # a defect of ours would repeat it every slot
            self._bad_told = True
            self._report(f"{self.path}: {len(bad)} records cannot be written: {bad[0]}")
        self._dropped += len(bad) + dropped
        return len(bad) + dropped - settled

    def _complete(
        self, connection: sqlite3.Connection, late: list[LateReward]
    ) -> tuple[list[LateReward], int]:
        """Complete the rows of late rewards; returns those whose row is still to come.

        The second value counts those whose row was lost, or had no place in the file.
        """
        early: list[LateReward] = []
        dropped = 0
        for item in late:
            try:
                rows = connection.execute(COMPLETE_SLOT, item).rowcount
            except DEFECTS:
                rows, dropped = 1, dropped + 1
            if rows == 0 and item.slot > self._last_slot:
                early.append(item)
            elif rows == 0:
                dropped += 1
        return early, dropped

    def _check_log(self) -> None:
        """Copy the log here if the keeper cannot keep up with a run that has no clock.

        Someone who reads the file for long keeps the log from being begun again; then it is not
        copied again before it has grown by as much once more.
        """
        if self._connection is not None and self._trouble_since is None:
            with suppress(OSError, sqlite3.Error):
                size = self._log.stat().st_size
                if size > self._copy_beyond:
                    done = copy_log(self._connection)
                    self._copy_beyond = LOG_LIMIT_BYTES if done else size + LOG_LIMIT_BYTES

    def _has_place(self) -> bool:
        """Whether the file can be found by its name; one that was deleted is begun again."""
        if self._lock is None or self._lock.is_of(self.path):
            self._gone = False
            return True
        if self._lock.is_deleted:
            return self._begin_again()
        if not self._gone:
            self._report(
                f"{self.path}: the run file was renamed while it is written, and is written on "
                "under its new name. Restart to begin a new one"
            )
        self._gone = True
        return True

    def _begin_again(self) -> bool:
        """Begin a new file in place of one that was deleted; its records count as lost."""
        self._deleted += self.written
        self._dropped += self.written
        self.written = 0
        self._disconnect()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            lock = create_run(self.path, self.header)
        except (OSError, InputOutputError) as error:
            self._begin_trouble(error)
            return False
        if self._lock is not None:
            self._lock.release()
        self._lock = lock
        self._begun += 1
        self._report(
            f"{self.path}: the run file was deleted while it was written: {self._deleted} records "
            "are lost, and a new file is begun there"
        )
        self._deleted = 0
        return True

    def _begin_trouble(self, error: Exception | str) -> None:
        if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_FULL) != sqlite3.SQLITE_FULL:
            self._disconnect()  # a file that came back is another one to SQLite
        if self._trouble_since is None:
            self._trouble_since = time.monotonic()
            self._dropped_before = self.lost
            self._report(
                f"{self.path}: recording has stopped: {error}; control goes on, up to {KEPT} "
                f"records wait in memory, and every {RETRY_S:g} s it is tried again"
            )

    def _end_trouble(self) -> None:
        if self._trouble_since is None:
            return
        lasted = time.monotonic() - self._trouble_since
        lost = self.lost - self._dropped_before
        self._trouble_since = None
        self._tell(f"{self.path}: recording goes on after {lasted:.1f} s; {lost} records were lost")

    def _finish(self) -> None:
        """Stop the keeper, leave one single file, and say what is not in it."""
        self._take()
        if left := self.pending:
            self._dropped += left
            self._waiting, self._early = [], []
            self._report(f"{self.path}: {left} records could not be written and are lost")
        self._keep_now.set()
        self._keeper.join(max(0.0, self._give_up_at - time.monotonic()))
        if self._connection is not None:
            with suppress(sqlite3.Error):  # the log stays beside the file then, and is read with it
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._disconnect()

    def _disconnect(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def _report(self, message: str) -> None:
        self.problems += 1
        self._tell(message)

    def _tell(self, message: str) -> None:
        if self._on_problem is not None:
            with suppress(Exception):  # whoever listens cannot stop the recording
                self._on_problem(message)

    # What follows runs in the keeper's thread.

    def _keep(self) -> None:
        connection: sqlite3.Connection | None = None
        begun = self._begun
        while not self._stopping.is_set():
            self._keep_now.wait(KEEP_S)
            if self._stopping.is_set():
                break
            if connection is not None and begun != self._begun:
                with suppress(sqlite3.Error):
                    connection.close()
                connection = None
            begun = self._begun
            try:
                connection = connection or open_run(self.path)
                copy_log(connection)
            except sqlite3.Error:  # the log grows meanwhile, until the writer has that trouble too
                if connection is not None:
                    with suppress(sqlite3.Error):
                        connection.close()
                connection = None
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()


_RECORDS = (SlotRecord, Event, LateReward)
