"""One writer a run file: an flock on the file, which the kernel drops with the process.

SQLite holds POSIX locks on the same file, and a process loses all of those when it closes any
descriptor of it. So a lock is opened before SQLite opens the file and closed after.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from macontrol.config.model.errors import InputOutputError, reason_of

NOT_THERE = "a run file cannot be written there"


class FileLock:
    """The exclusive right to write a file, held until `release`."""

    def __init__(self, path: Path, *, create: bool = False) -> None:
        """Take the lock; BlockingIOError if another holds it, OSError if it cannot be had."""
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT | os.O_EXCL if create else 0)
        self.descriptor = os.open(path, flags, 0o644)
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException:
            self.release()
            raise

    def is_of(self, path: Path) -> bool:
        """Whether this name still means the file that is locked."""
        try:
            return os.path.samestat(os.fstat(self.descriptor), path.stat())
        except OSError:
            return False

    @property
    def is_deleted(self) -> bool:
        """Whether the file that is locked has no name any more."""
        try:
            return os.fstat(self.descriptor).st_nlink == 0
        except OSError:
            return False

    def release(self) -> None:
        """Let go of the file; harmless when done again."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def failed(path: Path, error: Exception) -> InputOutputError:
    """The error of a run file that cannot be begun, with what to do about it."""
    return InputOutputError(
        f"{path}: {NOT_THERE}: {reason_of(error)}; give --run with a file in a folder that exists, "
        "can be written to and has room"
    )
