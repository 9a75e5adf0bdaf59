"""A log file of the traffic on a serial line, for the analysis of faults.

A thread writes the file, so that a slow disk does not delay the driver. Each piece is one line:
seconds since the file was opened, the direction, and the bytes with escapes for all that is not
printable. Where pieces are lost, a line with "!" contains their number. Only an earlier log is
overwritten, never another file.
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
from macontrol.config.model.errors import InputOutputError, reason_of
from macontrol.hal.clock import Clock

_FAILURE = "the traffic log cannot be written there"
_FIRST_LINE = re.compile(rb" *\d+\.\d{6} [<>!] ")

# Pieces in the queue while the disk hangs, about 5 MB; further pieces are dropped and counted.
MOST_WAITING = 20_000
# How long `__exit__` waits for the writer.
_LAST_S = 1.0


class TrafficFile:
    """Open from `__enter__` to `__exit__`; call it with bytes sent (">") or received ("<").

    `on_problem` gets a message when the first pieces are lost, from any thread.
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
        self._refused = 0  # counted by the callers, …
        self._unwritten = 0  # … and by the writer: each counter has one owner
        self._is_losing = False
        self._writer = threading.Thread(target=self._write, name="traffic-log", daemon=True)

    def __enter__(self) -> TrafficFile:
        try:
            # What is in the buffer when the disk is full is lost without a count. The default size
            # depends on the version of Python.
            self._file: TextIO = open(_open(self._path), "w", buffering=4096, encoding="ascii")
        except OSError as error:
            raise InputOutputError(f"{self._path}: {_FAILURE}: {reason_of(error)}") from error
        self._began_s = self._clock.now()
        self._writer.start()
        return self

    @property
    def lost(self) -> int:
        """How many pieces are missing in the file."""
        return self._refused + self._unwritten

    def __call__(self, direction: str, data: bytes) -> None:
        if self._has_ended:
            self._refused += 1
        elif self._queue.qsize() < MOST_WAITING:
            self._queue.put((self._clock.now() - self._began_s, direction, data))
        else:
            self._refused += 1
            self._report("the disk does not respond")

    def __exit__(self, *_: object) -> None:
        self._queue.put(None)
        self._writer.join(_LAST_S)
        if self._writer.is_alive():  # it waits for the disk, and ends with the process
            self._refused += max(0, self._queue.qsize() - 1)

    def _report(self, reason: str) -> None:
        if not self._is_losing:
            self._is_losing = True
            self._on_problem(f"{self._path}: the traffic log loses pieces: {reason}")

    def _write(self) -> None:
        """Write until the end, or until the disk is full: a run is worth more than its log.

        Later pieces are dropped: a queue without a writer would fill the memory.
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
            self._report(f"{reason_of(error)}; the log has ended")


def _open(path: Path) -> int:
    """Open a stream, a new file, or an earlier log to overwrite; refuse anything else."""
    stream = open_stream(path, _FAILURE)
    if stream is not None:
        return stream
    flags = os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    file = os.open(regular_target(path, _FAILURE), flags, 0o666)
    try:
        head = os.pread(file, 64, 0)
        if head and not _FIRST_LINE.match(head):
            raise OSError(None, "another file that is not a traffic log exists there")
        os.ftruncate(file, 0)
    except OSError:
        os.close(file)
        raise
    return file
