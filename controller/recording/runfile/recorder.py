"""The recorder of a run: takes records from the slot thread, writes them in another thread.

The writer wakes a few times per second and commits what has arrived. In WAL mode a commit only
appends to the page cache, so committed records survive the process. `LogCopier` copies the log into
the database. A full, read-only or missing disk stops neither the writer nor the run: records wait
in memory up to a limit, and lost ones are counted.
"""

from __future__ import annotations

import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from macontrol.config.files.free_space import FreeSpace
from macontrol.config.model.errors import InputOutputError
from macontrol.controller.recording.records import Item, Recorder
from macontrol.controller.recording.runfile.database import (
    BUSY_S,
    LOG_LIMIT_BYTES,
    LogCopier,
    RecordWriter,
    copy_log,
    create_run,
    open_run,
)
from macontrol.controller.recording.runfile.header import Resurvey, RunHeader
from macontrol.controller.recording.runfile.lock import FileLock, failed
from macontrol.controller.recording.runfile.schema import REPLACE_HEADER, beside
from macontrol.controller.survey.samples import Survey

# Records kept in memory while they cannot be written; about 100 MB.
KEPT = 200_000
# A run on a virtual clock waits for the writer beyond this many records or seconds: its slot thread
# never sleeps, and leaves the writer one row per thread switch.
AHEAD = 20_000
AHEAD_S = 0.4
# Rows per transaction: a nearly full disk still takes what fits, and no transaction is long.
CHUNK = 5_000
RETRY_S = 1.0


class RunFileRecorder(Recorder):
    """Writes one run into one file. Only `submit` is for the slot thread.

    `on_problem` is called when recording stops and when it continues, in the recorder's thread. An
    event that it submits is written as soon as there is space.
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
        self.header = header
        self.written = 0
        """Records in the file: slots, events and late rewards."""
        self.problems = 0
        """How many problems were reported."""
        self._room = room
        self._log = beside(self.path, "-wal")
        self._flush_s = flush_s
        self._on_problem = on_problem
        self._queue: queue.SimpleQueue[Item] = queue.SimpleQueue()
        self._put = self._queue.put
        self._size = self._queue.qsize
        self._refused = 0  # counted by the slot thread, …
        self._dropped = 0  # … and by the writer: no counter has two threads
        self._waiting: list[Item] = []
        self._header_is_old = False
        self._records = RecordWriter()
        self._trouble_since: float | None = None
        self._lost_before = 0
        self._level_at = time.monotonic()
        """When all submitted records were last written."""
        self._copy_beyond = LOG_LIMIT_BYTES
        self._is_renamed = False
        self._deleted = 0
        self._defect_is_reported = False
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._give_up_at = 0.0
        self._is_abandoned = False
        """Whether `close` did not wait any longer for the writer, as the disk hangs."""
        self._lock: FileLock | None = None
        self._connection: sqlite3.Connection | None = None
        self._writer = threading.Thread(target=self._write, name="run-file-writer", daemon=True)
        self._copier = LogCopier(self.path)

    def start(self) -> None:
        """Create the file with its header, and start to write; InputOutputError if that fails."""
        self._lock = create_run(self.path, self.header)
        try:
            self._connection = open_run(self.path)
        except sqlite3.Error as error:
            self._lock.release()
            raise failed(self.path, error) from error
        self._writer.start()
        self._copier.start()

    def submit(self, item: Item) -> None:
        """Take a record from the slot thread; returns at once, whatever the disk does."""
        if self._size() < KEPT:
            self._put(item)
        else:  # the writer hangs in the disk: the oldest records are kept
            self._refused += 1

    def add_resurvey(self, slot: int, survey: Survey) -> None:
        """Add a survey within the run to the header; from any thread but that of the slots."""
        self.header = replace(self.header, resurvey=Resurvey(slot, survey))
        self._header_is_old = True
        self._wake.set()

    @property
    def lost(self) -> int:
        """Records that will never be in the file."""
        return self._refused + self._dropped + (self.pending if self._is_abandoned else 0)

    @property
    def pending(self) -> int:
        """Records that are not written yet."""
        return self._size() + len(self._waiting) + len(self._records.early)

    def throttle(self) -> None:
        """Wait for a writer that is behind: a run on a virtual clock is faster than a disk.

        Never on a wall clock, and not for a disk with a problem: the run continues.
        """
        now = time.monotonic()
        if now - self._level_at > AHEAD_S or self.pending > AHEAD:
            while self._level_at < now and self._trouble_since is None and self._writer.is_alive():
                self._wake.set()
                time.sleep(0.001)

    def close(self, timeout: float = 5.0) -> None:
        """Write the remaining records, leave one single file, and release it."""
        if self._lock is None:
            return
        self._give_up_at = time.monotonic() + timeout
        self._stopping.set()
        self._wake.set()
        self._writer.join(timeout + 2 * BUSY_S)
        if self._writer.is_alive():  # it continues, and holds the lock, until the process ends
            self._is_abandoned = True
            if self.pending:
                self._report_problem(
                    f"{self.path}: the disk did not answer within {timeout:g} s; "
                    f"{self.pending} records may be lost"
                )
            return
        self._lock.release()
        self._lock = None

    # The methods below run in the writer's thread.

    def _write(self) -> None:
        while not self._stopping.is_set():
            self._wake.wait(self._flush_s if self._trouble_since is None else RETRY_S)
            self._wake.clear()
            self._round()
        self._round()
        while (self._waiting or self._size()) and (left := self._give_up_at - time.monotonic()) > 0:
            if self._room is not None and self._room.shortage():
                break  # waiting makes no space
            if self._trouble_since is not None:
                time.sleep(min(RETRY_S, left))
            self._round()
        self._finish()

    def _round(self) -> None:
        """Take what has arrived, commit it, and limit what waits."""
        self._take()
        if self._has_file():
            self._flush()
        if not self._waiting:
            self._level_at = time.monotonic()
        self._check_log()
        excess = len(self._waiting) - KEPT
        if excess > 0:  # a restart needs the newest records
            self._dropped += excess
            del self._waiting[:excess]

    def _take(self) -> None:
        take = self._queue.get_nowait
        self._waiting.extend([take() for _ in range(self._size())])

    def _flush(self) -> None:
        while self._waiting or self._header_is_old:
            if self._room is not None and (shortage := self._room.shortage()):
                self._begin_trouble(shortage)
                return
            chunk = self._waiting[:CHUNK]
            try:
                self._commit(chunk)
            except Exception as error:  # no error may end the writer's thread
                self._begin_trouble(error)
                return
            del self._waiting[: len(chunk)]
            self._end_trouble()

    def _commit(self, chunk: Sequence[Item]) -> None:
        if self._connection is None:
            self._connection = open_run(self.path)
        if self._header_is_old:
            self._header_is_old = False
            try:
                self._connection.executemany(REPLACE_HEADER, self.header.rows())
            except sqlite3.Error:
                self._header_is_old = True
                raise
        done = self._records.write(self._connection, chunk)
        self.written += done.stored
        self._dropped += done.lost
        if done.defects and not self._defect_is_reported:  # a bug would repeat it in every slot
            self._defect_is_reported = True
            self._report_problem(
                f"{self.path}: {len(done.defects)} records cannot be written: {done.defects[0]}"
            )

    def _check_log(self) -> None:
        """Copy the log here if it grows faster than the copier works, as on a virtual clock.

        A program that reads the file for long prevents that the log starts again. Then the next
        copy waits until the log has grown by the same size.
        """
        if self._connection is not None and self._trouble_since is None:
            with suppress(OSError, sqlite3.Error):
                size = self._log.stat().st_size
                if size > self._copy_beyond:
                    done = copy_log(self._connection)
                    self._copy_beyond = LOG_LIMIT_BYTES if done else size + LOG_LIMIT_BYTES

    def _has_file(self) -> bool:
        """Whether the file still exists; a deleted one is replaced by a new one."""
        if self._lock is None or self._lock.is_of(self.path):
            self._is_renamed = False
            return True
        if self._lock.is_deleted:
            return self._create_again()
        if not self._is_renamed:
            self._report_problem(
                f"{self.path}: the run file was renamed during the run, and recording continues "
                "under its new name; restart to start a new file"
            )
        self._is_renamed = True
        return True

    def _create_again(self) -> bool:
        """Create a new file in place of a deleted one; its records count as lost."""
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
        self._copier.reopen()
        self._report_problem(
            f"{self.path}: the run file was deleted during the run: {self._deleted} records are "
            "lost, and recording continues in a new file"
        )
        self._deleted = 0
        return True

    def _begin_trouble(self, error: Exception | str) -> None:
        if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_FULL) != sqlite3.SQLITE_FULL:
            self._disconnect()  # SQLite does not recognise a file that comes back
        if self._trouble_since is None:
            self._trouble_since = time.monotonic()
            self._lost_before = self.lost
            self._report_problem(
                f"{self.path}: recording has stopped: {error}; the run continues, up to {KEPT} "
                f"records wait in memory, and the next attempt is in {RETRY_S:g} s"
            )

    def _end_trouble(self) -> None:
        if self._trouble_since is None:
            return
        lasted = time.monotonic() - self._trouble_since
        lost = self.lost - self._lost_before
        self._trouble_since = None
        self._report(f"{self.path}: recording continues after {lasted:.1f} s; {lost} records lost")

    def _finish(self) -> None:
        """Stop the copier, leave one single file, and report what is not in it."""
        self._take()
        if left := self.pending:
            self._dropped += left
            self._waiting, self._records.early = [], []
            self._report_problem(f"{self.path}: {left} records could not be written and are lost")
        self._copier.stop(max(0.0, self._give_up_at - time.monotonic()))
        if self._connection is not None:
            with suppress(sqlite3.Error):  # otherwise the log stays beside the file
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._disconnect()

    def _disconnect(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def _report_problem(self, message: str) -> None:
        self.problems += 1
        self._report(message)

    def _report(self, message: str) -> None:
        if self._on_problem is not None:
            with suppress(Exception):  # an error of the listener cannot stop the recording
                self._on_problem(message)
