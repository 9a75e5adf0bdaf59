"""Write output to a regular file, atomically, or to a stream.

An output option can name anything. A regular file or a new name is written by a rename, so that
others never read half of it. A symbolic link stays, and its target is written. A pipe, the
process's terminal, /dev/null and the standard streams are written directly. Everything else (a
disk, a serial port, a socket, a folder) is refused before it is opened.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path
from typing import IO, TextIO

from macontrol.config.model.errors import InputOutputError, reason_of

_CANNOT = "cannot be written"
_DESCRIPTORS = re.compile(r"/(?:dev/fd|proc/(?:self|thread-self|\d+)/fd)/(\d{1,9})")
_MOST_LINKS = 40  # the limit of the kernel
_STANDARD = {"/dev/stdout": 1, "/dev/stderr": 2}
# Kernel devices that accept any bytes: /dev/null and /dev/full.
_SINKS = {os.makedev(1, 3), os.makedev(1, 7)}


@contextmanager
def atomic_file(path: Path, failure: str = _CANNOT) -> Iterator[IO[bytes]]:
    """Open an output for writing; a regular file gets its name when it is complete and on disk."""
    stream = open_stream(path, failure)
    if stream is not None:
        with _explained(path, failure), os.fdopen(stream, "wb") as file:
            yield file
        return
    target = regular_target(path, failure)
    part = target.parent / f".{target.name}.{os.getpid()}.part"
    with _explained(path, failure):
        try:
            part.unlink(missing_ok=True)
            with part.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            part.replace(target)
        finally:
            # After a success the part no longer exists; after an interruption it is useless.
            with suppress(OSError):
                part.unlink()


@contextmanager
def atomic_text(path: Path, failure: str = _CANNOT) -> Iterator[TextIO]:
    """Open an output for UTF-8 text, without translating line ends."""
    with atomic_file(path, failure) as file:
        text = TextIOWrapper(file, "utf-8", newline="")
        try:
            yield text
            text.flush()
        finally:
            with suppress(OSError):
                text.detach()  # `atomic_file` closes it


def regular_target(path: Path, failure: str = _CANNOT) -> Path:
    """Return the regular file or new name that a path leads to, following links, or refuse it."""
    if _own_descriptor(path) is not None:
        raise _refused(path, failure, "it is a stream, and this output must be a file")
    with _explained(path, failure):
        target = Path(os.path.realpath(path))
        kind = _kind(path)
        if kind is not None and not stat.S_ISREG(kind.st_mode):
            raise _refused(path, failure, f"it is {kind_name(kind.st_mode)}")
    return target


def check_output(path: Path, failure: str = _CANNOT) -> None:
    """Refuse what is neither a file, a new name nor a stream; call it before any long work."""
    if _own_descriptor(path) is not None:
        return
    with _explained(path, failure):
        kind = _kind(path)
        if kind is None and not (folder := Path(os.path.realpath(path)).parent).is_dir():
            raise _refused(path, failure, f"there is no folder {folder}")
    if kind is None or stat.S_ISREG(kind.st_mode) or stat.S_ISFIFO(kind.st_mode):
        return
    if not _is_harmless_device(kind):
        raise _refused(path, failure, f"it is {kind_name(kind.st_mode)}")


def open_stream(path: Path, failure: str = _CANNOT) -> int | None:
    """Open a path for writing if it is a stream; None for a file or a new name.

    A pipe without a reader is refused: waiting for a reader could take forever.
    """
    with _explained(path, failure):
        own = _own_descriptor(path)
        if own is not None:  # opened by name, a file would be overwritten
            return os.dup(own)
        check_output(path, failure)
        kind = _kind(path)
        if kind is None or stat.S_ISREG(kind.st_mode):
            return None
        try:
            stream = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError:
            if stat.S_ISFIFO(kind.st_mode):
                raise _refused(
                    path, failure, "this pipe has no reader", "start its reader first"
                ) from None
            raise
        os.set_blocking(stream, True)
        return stream


def kind_name(mode: int) -> str:
    """Name the kind of a file system entry, as in "a folder"."""
    return _KINDS.get(stat.S_IFMT(mode), "not a regular file")


_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a disk or another block device",
    stat.S_IFCHR: "a serial port, a terminal or another device",
}


def _own_descriptor(path: Path) -> int | None:
    """Return the descriptor of a path such as /dev/stdout or /dev/fd/3; None for other paths."""
    name = os.path.abspath(path)
    for _ in range(_MOST_LINKS):
        if name in _STANDARD:
            return _STANDARD[name]
        found = _DESCRIPTORS.fullmatch(name)
        if found is not None and (name.startswith("/dev/") or _is_own(name)):
            return int(found[1])
        try:
            name = os.path.abspath(os.path.join(os.path.dirname(name), os.readlink(name)))
        except (OSError, ValueError):  # not a link
            return None
    return None


def _is_own(name: str) -> bool:
    process = name.split("/")[2]
    return process in ("self", "thread-self", str(os.getpid()))


def _kind(path: Path) -> os.stat_result | None:
    """Return the status of a path, following links; None for a new name."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _is_harmless_device(kind: os.stat_result) -> bool:
    """Whether text does no harm to a device: /dev/null, /dev/full, the process's terminal."""
    if not stat.S_ISCHR(kind.st_mode):
        return False
    return kind.st_rdev in _SINKS or any(_is_terminal(own, kind.st_rdev) for own in range(3))


def _is_terminal(own: int, device: int) -> bool:
    try:
        return os.isatty(own) and os.fstat(own).st_rdev == device
    except OSError:
        return False


@contextmanager
def _explained(path: Path, failure: str) -> Iterator[None]:
    """Turn an OSError into an InputOutputError with the file, the reason and the fix."""
    try:
        yield
    except BrokenPipeError:  # the reader has ended: the command line handles that
        raise
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        if isinstance(error, ValueError) and "\0" not in str(path):
            raise
        raise _refused(path, failure, reason_of(error)) from error


def _refused(
    path: Path,
    failure: str,
    reason: str,
    fix: str = "choose a file in a folder that exists, can be written to and has room",
) -> InputOutputError:
    return InputOutputError(f"{path}: {failure}: {reason}", fix)
