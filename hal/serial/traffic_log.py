"""What goes over a serial line, kept in a file to find out what went wrong.

The bytes are passed to a thread that writes them, so that a slow disk delays nobody. One line for
each piece: seconds since the file was opened, the direction, and the bytes with everything that is
not printable escaped. Where pieces are lost, a line with "!" says how many. A file that holds
something else is not written over.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import TextIO

from macontrol.config.files.atomic_file import open_stream, regular_target
from macontrol.config.files.free_space import FreeSpace
from macontrol.config.model.errors import InputOutputError
from macontrol.hal.clock import Clock

_FAILURE = "the traffic cannot be written there"
_BEGINS = re.compile(rb" *\d+\.\d{6} [<>!] ")


# Pieces that wait while the disk hangs, about 5 MB; those that come then are dropped and counted.
MOST_WAITING = 20_000
# How long the writer may take at the end.
_LAST_S = 1.0


class TrafficFile:
    """Open from `__enter__` to `__exit__`; call it with what goes out (">") and comes in ("<").

    `on_problem` gets a message when pieces begin to be lost, from whatever thread that is seen in.
    """

    def __init__(
        self,
        path: Path,
        clock: Clock,
        *,
        on_problem: Callable[[str], None] = lambda _: None,
        room: FreeSpace | None = None,
    ) -> None:
        self._path = path
        self._clock = clock
        self._on_problem = on_problem
        self._room = room
        self._queue: SimpleQueue[tuple[float, str, bytes] | None] = SimpleQueue()
        self._has_ended = False
        self._refused = 0  # counted by those who call, …
        self._unwritten = 0  # … and by the writer: no count has two owners
        self._is_losing = False
        self._writer = threading.Thread(target=self._write, name="traffic-log", daemon=True)

    def __enter__(self) -> TrafficFile:
        try:
            self._file: TextIO = open(_open(self._path), "w", encoding="ascii")
        except OSError as error:
            raise InputOutputError(
                f"{self._path}: {_FAILURE}: {error.strerror or error}"
            ) from error
        self._began_s = self._clock.now()
        self._writer.start()
        return self

    @property
    def lost(self) -> int:
        """Pieces that are not in the file and will never be."""
        return self._refused + self._unwritten

    def __call__(self, direction: str, data: bytes) -> None:
        if self._has_ended:
            self._refused += 1
        elif self._queue.qsize() < MOST_WAITING:
            self._queue.put((self._clock.now() - self._began_s, direction, data))
        else:
            self._refused += 1
            self._report("the disk does not answer")

    def __exit__(self, *_: object) -> None:
        self._queue.put(None)
        self._writer.join(_LAST_S)
        if self._writer.is_alive():  # it hangs in the disk, and ends with the process
            self._refused += max(0, self._queue.qsize() - 1)

    def _report(self, reason: str) -> None:
        if not self._is_losing:
            self._is_losing = True
            self._on_problem(f"{self._path}: pieces of the traffic log are lost: {reason}")

    def _write(self) -> None:
        """Write until the end, or until the disk is full: a run is worth more than its log.

        What comes after that is not kept: it would fill the memory instead.
        """
        noted = 0
        try:
            with self._file as file:
                while (piece := self._queue.get()) is not None:
                    if self._room is not None and (shortage := self._room.shortage()):
                        self._unwritten += 1
                        self._report(shortage)
                        continue
                    moment, direction, data = piece
                    if self.lost > noted:
                        file.write(f"{moment:12.6f} ! {self.lost - noted} pieces are lost here\n")
                        noted, self._is_losing = self.lost, False
                    text = data.decode("latin-1").encode("unicode_escape").decode("ascii")
                    file.write(f"{moment:12.6f} {direction} {text}\n")
                    if self._queue.empty():
                        file.flush()
        except OSError as error:
            self._has_ended = True
            self._unwritten += 1 + self._queue.qsize()
            self._report(f"{error.strerror or error}; the log has ended")


def _open(path: Path) -> int:
    """Open a stream, a new file or an earlier log, which is written over; nothing else."""
    stream = open_stream(path, _FAILURE)
    if stream is not None:
        return stream
    flags = os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    file = os.open(regular_target(path, _FAILURE), flags, 0o666)
    try:
        head = os.pread(file, 64, 0)
        if head and not _BEGINS.match(head):
            raise OSError(None, "there is a file already that is no log of traffic")
        os.ftruncate(file, 0)
    except OSError:
        os.close(file)
        raise
    return file
