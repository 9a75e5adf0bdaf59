"""Standard output that may be slow, full, closed or gone: none of that is the run's trouble."""

from __future__ import annotations

import os
import sys
import threading


class Output:
    """Standard output without a buffer or a lock, so that a write that hangs holds up nobody.

    What cannot be written is dropped: there is nobody left to tell.
    """

    def __init__(self) -> None:
        self._stream = sys.stdout
        try:
            # None where there is no standard output: its number may belong to another file then.
            self._file = None if self._stream is None else self._stream.fileno()
        except (OSError, ValueError):
            self._file = None

    @property
    def is_terminal(self) -> bool:
        try:
            return self._file is not None and os.isatty(self._file)
        except OSError:
            return False

    def write(self, text: str) -> int:
        try:
            if self._file is None:
                if self._stream is not None:
                    self._stream.write(text)
                return len(text)
            rest = text.encode("utf-8", "replace")
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except (OSError, ValueError):
            pass
        return len(text)

    def flush(self) -> None:
        """Nothing is held back."""

    def write_within(self, text: str, seconds: float) -> None:
        """Write, but do not wait longer than this for whoever reads it."""
        thread = threading.Thread(target=self.write, args=(text,), name="output", daemon=True)
        thread.start()
        thread.join(seconds)
