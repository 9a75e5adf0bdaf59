"""One controller a stage: a lock that names its holder and goes with it, however it ends.

The lock is the kernel's (flock), so a file left behind by a killed process locks nothing. What
the file says only serves the message to whoever comes second.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shlex
import stat
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from macontrol.config.model.errors import HardwareError

_SHOWN_COMMAND = 200


class InstanceLock:
    """The right to drive a stage, held from `__enter__` to `__exit__`.

    A stage that is a device may be called by any of its names: they all lead to one lock.
    """

    def __init__(self, stage: str, directory: Path | None = None) -> None:
        self.stage = stage
        self._folder = lock_directory() if directory is None else directory
        self.path = self._path_now()
        self._file: int | None = None

    def __enter__(self) -> InstanceLock:
        """Take the lock, or raise HardwareError saying who holds it."""
        self._take()
        return self

    def __exit__(self, *_: object) -> None:
        """Give the lock back. The file stays: to remove it would race with the next holder."""
        if self._file is not None:
            self._write("")
            os.close(self._file)
            self._file = None

    def follow(self) -> None:
        """After the stage was gone: hold the lock of the device that its name leads to now.

        The device that it was before may be another stage's soon. Where the new one is locked
        already, the old lock is kept.
        """
        new = InstanceLock(self.stage, self._folder)
        if self._file is None or new.path == self.path or not os.path.exists(self.stage):
            return
        with suppress(HardwareError):
            new._take()
            self.__exit__()
            self.path, self._file = new.path, new._file

    def _path_now(self) -> Path:
        name = os.path.realpath(self.stage) if self.stage.startswith("/") else self.stage
        return self._folder / (quote(name.strip("/"), safe="")[:200] + ".lock")

    def _take(self) -> None:
        file = _open(self.path)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            told = _told(file)
            os.close(file)
            raise HardwareError(f"stage {self.stage} is driven by {told}") from None
        except OSError as error:
            os.close(file)
            raise _unusable(self.path, error) from error
        self._file = file
        self._write(
            json.dumps(
                {
                    "pid": os.getpid(),
                    "born": _birth(os.getpid()),
                    "since": time.strftime("%Y-%m-%d %H:%M:%S"),
                    "command": shlex.join(_command_line()),
                }
            )
        )

    def _write(self, text: str) -> None:
        assert self._file is not None
        try:
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, text.encode(), 0)
        except OSError:  # another user's file, or a full disk: the lock holds without the words
            pass


def lock_directory(environment: Mapping[str, str] | None = None) -> Path:
    """Get where the locks lie, made if need be: one place for all who could meet on a stage.

    Services share theirs (RUNTIME_DIRECTORY), root joins it, a user has the session's; failing
    those, a folder of the user's own beside other programs' locks.
    """
    variables = os.environ if environment is None else environment
    given = variables.get("RUNTIME_DIRECTORY", "").split(":")[0]
    session = variables.get("XDG_RUNTIME_DIR", "")
    user = os.geteuid()
    candidates = [Path(given)] if given else []
    if user == 0:
        candidates.append(Path("/run/macontrol"))
    if session:
        candidates.append(Path(session, "macontrol"))
    candidates += [Path(base, f"macontrol-{user}") for base in ("/run/lock", tempfile.gettempdir())]
    reasons = []
    for folder in candidates:
        try:
            folder.mkdir(mode=0o755, exist_ok=True)
            _check_folder(folder, follow=user == 0 or str(folder) == given)
        except OSError as error:
            reasons.append(f"{folder}: {error.strerror or error}")
        else:
            return folder
    raise HardwareError(
        "no folder for the stage's lock; set XDG_RUNTIME_DIR. " + "; ".join(reasons)
    )


def _check_folder(folder: Path, *, follow: bool) -> None:
    """Refuse a folder in which someone else could put a lock in our place."""
    found = folder.stat() if follow else folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise OSError(None, "not a folder")
    if found.st_uid not in (0, os.geteuid()) and os.geteuid() != 0:
        raise OSError(None, "belongs to another user")
    if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
        raise OSError(None, "anyone may write there")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OSError(None, "may not be written to")


def _open(path: Path) -> int:
    flags = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o644)
        except PermissionError:  # another user's: reading is enough to be locked out, or to lock
            file = os.open(path, os.O_RDONLY | flags)
    except OSError as error:
        raise _unusable(path, error) from error
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise HardwareError(f"{path}: the stage's lock is not a regular file; remove it")
    return file


def _unusable(path: Path, error: OSError) -> HardwareError:
    return HardwareError(
        f"{path}: the stage's lock cannot be used: {error.strerror or error}; "
        "remove what stands there, or run as the user it belongs to"
    )


def _told(file: int) -> str:
    """Who holds the lock and how to end it, as far as the file and the kernel tell."""
    try:
        holder: dict[str, Any] = json.loads(os.pread(file, 65536, 0))
        pid, since, command = int(holder["pid"]), str(holder["since"]), str(holder["command"])
        current = _is_running(pid, holder.get("born"))
    except (OSError, ValueError, KeyError, TypeError):
        current, pid, since, command = False, 0, "", ""
    if not current:
        return "another process; stop it first (systemctl stop 'macontrol*')"
    if len(command) > _SHOWN_COMMAND:
        command = command[: _SHOWN_COMMAND - 1] + "…"
    unit = _unit(pid)
    stop = f"systemctl stop {unit}" if unit else f"kill {pid}"
    return f"pid {pid} ({command}, since {since}); stop it first ({stop})"


def _command_line() -> list[str]:
    program = Path(sys.argv[0])
    if program.name == "__main__.py":  # started with `python -m`
        program = program.parent
    return [program.name or "python", *sys.argv[1:]]


def _birth(pid: int) -> str | None:
    """When a process started, in the kernel's ticks: tells it from a later one of its number."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return words[19]


def _is_running(pid: int, born: object) -> bool:
    """Whether that very process still runs; one whose birth is hidden from us is believed."""
    now = _birth(pid)
    if now is not None:
        return now == born
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return True


def _unit(pid: int) -> str | None:
    """The service a process runs in, if it is one of ours."""
    try:
        groups = Path(f"/proc/{pid}/cgroup").read_text(errors="replace")
    except OSError:
        return None
    found = re.search(r"/(macontrol[^/\n]*\.service)$", groups, re.MULTILINE)
    return found[1] if found else None
