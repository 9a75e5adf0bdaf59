"""One controller per stage: a lock that identifies its holder and ends with the process.

The lock is a kernel lock (flock), so the file of a killed process locks nothing. The content of
the file is used only for the error message of a second process.
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

from macontrol.config.model.errors import HardwareError, StageInUseError, reason_of

_COMMAND_LENGTH = 200


class InstanceLock:
    """Exclusive use of a stage, from `__enter__` to `__exit__`.

    All names of a device have the same lock.
    """

    def __init__(self, stage: str, directory: Path | None = None) -> None:
        self.stage = stage
        self._folder = lock_directory() if directory is None else directory
        self.path = self._path_now()
        self._file: int | None = None

    def __enter__(self) -> InstanceLock:
        """Take the lock; raise HardwareError with its holder if it is taken."""
        self._take()
        return self

    def __exit__(self, *_: object) -> None:
        """Release the lock. The file stays, because removing it would race with the next holder."""
        if self._file is not None:
            self._write("")
            os.close(self._file)
            self._file = None

    def follow(self) -> None:
        """Move the lock to the device that the name of the stage refers to now.

        After an unplug the previous device can soon belong to another stage. If the new device is
        already locked, the previous lock is kept.
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
            holder, fix = _holder(file)
            os.close(file)
            raise StageInUseError(f"stage {self.stage} is driven by {holder}", fix) from None
        except OSError as error:
            os.close(file)
            raise _unusable(self.path, error) from error
        self._file = file
        self._write(
            json.dumps(
                {
                    "pid": os.getpid(),
                    "born": _start_ticks(os.getpid()),
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
        except OSError:  # another user's file, or a full disk: the lock works without the content
            pass


def lock_directory(environment: Mapping[str, str] | None = None) -> Path:
    """Return the folder of the locks, and create it if necessary.

    It is the same for all processes that can use a stage: services and root share one
    (RUNTIME_DIRECTORY), a user has one in the session. The fallback is a folder of the user in the
    lock folder of the system.
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
            # Control sockets are in it too: a user's own folder is private.
            folder.mkdir(mode=0o755 if user == 0 else 0o700, exist_ok=True)
            _check_folder(folder, follow=user == 0 or str(folder) == given)
        except OSError as error:
            reasons.append(f"{folder}: {reason_of(error)}")
        else:
            return folder
    raise HardwareError(
        f"no folder for the lock of the stage ({', '.join(reasons)})", "set XDG_RUNTIME_DIR"
    )


def _check_folder(folder: Path, *, follow: bool) -> None:
    """Refuse a folder in which another user could replace a lock."""
    found = folder.stat() if follow else folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise OSError(None, "not a folder")
    if found.st_uid not in (0, os.geteuid()) and os.geteuid() != 0:
        raise OSError(None, "belongs to another user")
    if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
        raise OSError(None, "writable by everyone")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OSError(None, "not writable")


def _open(path: Path) -> int:
    flags = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o644)
        except PermissionError:  # another user's file: reading is sufficient for a lock
            file = os.open(path, os.O_RDONLY | flags)
    except OSError as error:
        raise _unusable(path, error) from error
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise HardwareError(f"{path}: the lock of the stage is not a regular file", "remove it")
    return file


def _unusable(path: Path, error: OSError) -> HardwareError:
    return HardwareError(
        f"{path}: the lock of the stage cannot be used: {reason_of(error)}",
        "remove that file, or run as its owner",
    )


def _holder(file: int) -> tuple[str, str]:
    """Return the holder of the lock and how to stop it, as far as they are known."""
    try:
        holder: dict[str, Any] = json.loads(os.pread(file, 65536, 0))
        pid, since, command = int(holder["pid"]), str(holder["since"]), str(holder["command"])
        current = _is_running(pid, holder.get("born"))
    except (OSError, ValueError, KeyError, TypeError):
        current, pid, since, command = False, 0, "", ""
    if not current:
        return "another process", "stop it first (systemctl stop 'macontrol*')"
    if len(command) > _COMMAND_LENGTH:
        command = command[: _COMMAND_LENGTH - 1] + "…"
    unit = service_of(pid)
    stop = f"systemctl stop {unit}" if unit else f"kill {pid}"
    return f"pid {pid} ({command}, since {since})", f"stop it first ({stop})"


def _command_line() -> list[str]:
    program = Path(sys.argv[0])
    if program.name == "__main__.py":  # started with `python -m`
        program = program.parent
    return [program.name or "python", *sys.argv[1:]]


def _start_ticks(pid: int) -> str | None:
    """Return when a process started (kernel ticks), to detect a later process with this pid."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return words[19]


def _is_running(pid: int, born: object) -> bool:
    """Whether the same process is still running; yes if its start time is not visible."""
    now = _start_ticks(pid)
    if now is not None:
        return now == born
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return True


def service_of(pid: int) -> str | None:
    """Return the macontrol service of a process; None if it is not in one."""
    try:
        groups = Path(f"/proc/{pid}/cgroup").read_text(errors="replace")
    except OSError:
        return None
    found = re.search(r"/(macontrol[^/\n]*\.service)$", groups, re.MULTILINE)
    return found[1] if found else None
