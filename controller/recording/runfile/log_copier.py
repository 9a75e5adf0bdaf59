"""Copy the log of a run file into the database in a thread of its own.

A copy syncs the disk, which takes seconds on a slow card; the writer does not wait for it.
"""

from __future__ import annotations

import sqlite3
import threading
from contextlib import suppress
from pathlib import Path

from macontrol.controller.recording.runfile.database import copy_log, open_run

COPY_INTERVAL_S = 5.0
"""A power cut costs at most the records of this time."""


class LogCopier:
    """Copies regularly from `start` to `stop`."""

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
