"""Check an input file before it is read: a regular file of a plausible size.

A pipe or a device may never end, and a file may be larger than the memory.
"""

from __future__ import annotations

import os
import stat
import zipfile
from pathlib import Path

from macontrol.config.files.atomic_file import kind_name
from macontrol.config.model.errors import DataError, NoInputError, reason_of

CONFIG_LIMIT = 256 << 10
"""Bytes of a TOML file or a schedule of faults. The longest preset has 8 kB."""
RESULT_LIMIT = 16 << 20
"""Bytes of one result of a campaign, or of a kept survey."""
ARCHIVE_LIMIT = 5 << 30
"""Bytes of a reward map. `simulate-map` writes at most 4 GiB of rewards."""
_GIVE_A_FILE = "give the path of a regular file"
_UNPACKED_FREE = 128 << 20
_UNPACKED_TIMES = 20
"""An archive may unpack to 128 MiB, or to 20 times its size if that is more: rewards are noise,
which hardly compresses, so an archive that compresses better is not a reward map."""


def check_input(path: Path, limit: int | None = None) -> int:
    """Check that a path names a regular file that can be read, of at most `limit` bytes.

    Return the size. Raise NoInputError if there is no such file or it may not be read, DataError
    otherwise.
    """
    try:
        found = path.stat()
    except FileNotFoundError as error:
        raise NoInputError(
            f"{path}: there is no such file", "give the path of a file that exists"
        ) from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise NoInputError(
            f"{path}: {reason_of(error)}", "give the path of a file that exists"
        ) from None
    if not stat.S_ISREG(found.st_mode):
        raise DataError(f"{path}: is {kind_name(found.st_mode)}", _GIVE_A_FILE)
    if not os.access(path, os.R_OK):
        raise NoInputError(f"{path}: no permission to read it", "ask its owner for permission")
    if found.st_size == 0 and _is_stream(path):
        found = path.stat()  # a file that is being written can have grown
        if found.st_size == 0:
            raise DataError(f"{path}: is a stream of the kernel", _GIVE_A_FILE)
    if limit is not None and found.st_size > limit:
        raise DataError(
            f"{path}: has {found.st_size} bytes, and at most {limit} are allowed here",
            "is it the right file?",
        )
    return found.st_size


def _is_stream(path: Path) -> bool:
    """Whether a file of size 0 yields data or blocks, as /proc/kmsg does."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return bool(os.read(descriptor, 1))
    except OSError:
        return True
    finally:
        os.close(descriptor)


def read_input(path: Path, limit: int) -> bytes:
    """Read a whole input file after `check_input`."""
    check_input(path, limit)
    try:
        with path.open("rb") as file:
            return file.read(limit)
    except OSError as error:
        raise NoInputError(f"{path}: cannot be read: {reason_of(error)}") from error


def check_archive(path: Path, limit: int = ARCHIVE_LIMIT) -> None:
    """Check an npz archive before it is unpacked: kind, size, and the size that it unpacks to.

    A small file that is not an archive passes: its reader has a better message.
    """
    size = check_input(path, limit)
    try:
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile) as error:
        if size > _UNPACKED_FREE:
            raise DataError(f"{path}: is not an npz archive: {error}") from error
        return
    most = min(max(_UNPACKED_FREE, _UNPACKED_TIMES * size), limit)
    if unpacked > most:
        raise DataError(
            f"{path}: unpacks to {unpacked} bytes, and {size} bytes may unpack to at most {most}",
            "is it the right file?",
        )
