"""A line that is drawn again and again on a terminal; in a pipe, one line per second."""

from __future__ import annotations

import shutil
import sys
import time

from macontrol.standard_streams import is_terminal

_EVERY_S = 1.0
_CLEAR = "\r\x1b[K"


class OneLine:
    """The line, on standard output, with notes above it."""

    def __init__(self) -> None:
        self.is_terminal = is_terminal(sys.stdout)
        self._is_drawn = False
        self._printed_s = -_EVERY_S

    def show(self, text: str, *, is_last: bool = False) -> None:
        """Show the line; in a pipe not more often than once per second, apart from the last."""
        now = time.monotonic()
        if self.is_terminal:
            width = shutil.get_terminal_size().columns - 1
            self._write(f"{_CLEAR}{text[:width]}")
            self._is_drawn = True
        elif is_last or now - self._printed_s >= _EVERY_S:
            self._printed_s = now
            self._write(f"{text.rstrip()}\n")

    def note(self, text: str) -> None:
        """Print a line that stays."""
        self._write(f"{_CLEAR if self._is_drawn else ''}{text}\n")
        self._is_drawn = False

    def end(self) -> None:
        """Leave the last state on the terminal."""
        if self._is_drawn:
            self._write("\n")
            self._is_drawn = False

    @staticmethod
    def _write(text: str) -> None:
        if sys.stdout is not None:
            sys.stdout.write(text)
            sys.stdout.flush()
