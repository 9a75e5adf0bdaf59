"""Standard output for a run, which continues if the output is slow, full or closed."""

from __future__ import annotations

import os
import sys
import threading

from macontrol.display.characters import can_show
from macontrol.standard_streams import PLAIN_WORDS


class Output:
    """Standard output without a buffer or a lock, so that a blocked write blocks nothing else.

    Text that cannot be written is dropped: there is no other place to report it.
    """

    def __init__(self) -> None:
        self._stream = sys.stdout
        try:
            # None without standard output: its descriptor may belong to another file then.
            self._file = None if self._stream is None else self._stream.fileno()
        except (OSError, ValueError):
            self._file = None
        self._encoding = getattr(self._stream, "encoding", None) or "utf-8"

    @property
    def is_terminal(self) -> bool:
        try:
            return self._file is not None and os.isatty(self._file)
        except OSError:
            return False

    @property
    def is_journal(self) -> bool:
        """Whether systemd has connected it to journald (systemd.exec(5), JOURNAL_STREAM)."""
        try:
            if self._file is None:
                return False
            status = os.fstat(self._file)
        except OSError:
            return False
        return os.environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"

    @property
    def is_unicode(self) -> bool:
        return can_show(self._encoding)

    def write(self, text: str) -> int:
        try:
            if self._file is None:
                if self._stream is not None:
                    self._stream.write(text)
                return len(text)
            rest = text.encode(self._encoding, PLAIN_WORDS)
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except (OSError, ValueError):
            pass
        return len(text)

    def flush(self) -> None:
        """Nothing is buffered."""

    def write_within(self, text: str, seconds: float) -> None:
        """Write, but wait at most this long for the reader."""
        thread = threading.Thread(target=self.write, args=(text,), name="output", daemon=True)
        thread.start()
        thread.join(seconds)
