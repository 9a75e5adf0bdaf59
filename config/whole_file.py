"""How a file is written that others may read at any moment: whole, or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from macontrol.config.errors import InputOutputError


@contextmanager
def whole_file(path: Path, failure: str = "cannot be written") -> Iterator[Path]:
    """A file to write that takes its name only once it is complete and on the disk."""
    part = path.parent / f".{path.name}.{os.getpid()}.part"
    try:
        yield part
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise InputOutputError(
            f"{path}: {failure}: {error.strerror or error}; "
            "choose a folder that exists, can be written to and has room"
        ) from error
    finally:
        # Nothing is left of it after a success, nor anything of use after an interruption.
        with suppress(OSError):
            part.unlink()
