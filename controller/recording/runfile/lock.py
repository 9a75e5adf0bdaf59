"""One writer per run file: an flock on the file, which the kernel releases with the process.

SQLite holds POSIX locks on the same file, and a process loses all of them when it closes any
descriptor of it. So the lock is opened before SQLite opens the file, and closed after.
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
        """Take the lock; BlockingIOError if another process has it, OSError if that fails."""
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT | os.O_EXCL if create else 0)
        self.descriptor = os.open(path, flags, 0o644)
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException:
            self.release()
            raise

    def is_of(self, path: Path) -> bool:
        """Whether this path is still the locked file."""
        try:
            return os.path.samestat(os.fstat(self.descriptor), path.stat())
        except OSError:
            return False

    @property
    def is_deleted(self) -> bool:
        """Whether the locked file was deleted."""
        try:
            return os.fstat(self.descriptor).st_nlink == 0
        except OSError:
            return False

    def release(self) -> None:
        """Release the file; a second call has no effect."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def failed(path: Path, error: Exception) -> InputOutputError:
    """The error of a run file that cannot be created."""
    return InputOutputError(
        f"{path}: {NOT_THERE}: {reason_of(error)}",
        "give --run with a file in an existing, writable folder with free space",
    )
