"""What goes over a serial line, kept in a file for whoever has to find out what went wrong.

The bytes are handed to a thread that writes them, so that a slow disk holds nobody up. One line
for each piece: seconds since the file was opened, the direction, and the bytes with everything
that is not printable escaped. A file that holds something else is not written over.
"""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path
from queue import SimpleQueue
from typing import TextIO

from macontrol.config.errors import InputOutputError
from macontrol.hal.clock import Clock

_BEGINS = re.compile(rb" *\d+\.\d{6} [<>] ")


class TrafficFile:
    """Open from `__enter__` to `__exit__`; call it with what goes out (">") and comes in ("<")."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._queue: SimpleQueue[tuple[float, str, bytes] | None] = SimpleQueue()
        self._has_ended = False
        self._writer = threading.Thread(target=self._write, name="traffic-log", daemon=True)

    def __enter__(self) -> TrafficFile:
        try:
            _refuse_what_is_no_log(self._path)
            self._file: TextIO = open(self._path, "w", encoding="ascii", opener=_open_at_once)
        except OSError as error:
            raise InputOutputError(
                f"{self._path}: the traffic cannot be written there: {error.strerror or error}"
            ) from error
        self._began_s = self._clock.now()
        self._writer.start()
        return self

    def __call__(self, direction: str, data: bytes) -> None:
        if not self._has_ended:
            self._queue.put((self._clock.now() - self._began_s, direction, data))

    def __exit__(self, *_: object) -> None:
        self._queue.put(None)
        self._writer.join(1.0)

    def _write(self) -> None:
        """Write until told to end, or until the disk is full: a run is worth more than its log.

        What comes after that is not kept: it would fill the memory instead.
        """
        try:
            with self._file as file:
                while (piece := self._queue.get()) is not None:
                    moment, direction, data = piece
                    text = data.decode("latin-1").encode("unicode_escape").decode("ascii")
                    file.write(f"{moment:12.6f} {direction} {text}\n")
                    if self._queue.empty():
                        file.flush()
        except OSError:
            self._has_ended = True


def _refuse_what_is_no_log(path: Path) -> None:
    """Raise OSError if there is a file that holds something else than an earlier log."""
    if path.is_file():
        with path.open("rb") as file:
            head = file.read(64)
        if head and not _BEGINS.match(head):
            raise OSError(None, "there is a file already that is no log of traffic")


def _open_at_once(path: str, flags: int) -> int:
    """Open without waiting, as for a pipe's reader; never a port, which may be a stage's."""
    file = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY, 0o666)
    try:
        if os.isatty(file) and not any(_is_terminal(own, file) for own in range(3)):
            raise OSError(None, "it is a serial port, or somebody else's terminal")
        os.set_blocking(file, True)
    except OSError:
        os.close(file)
        raise
    return file


def _is_terminal(own: int, file: int) -> bool:
    return os.isatty(own) and os.fstat(own).st_rdev == os.fstat(file).st_rdev
