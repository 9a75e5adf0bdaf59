"""Framing: cut the bytes of a serial port into messages.

A text protocol ends its messages with a line feed (`LineBuffer`). A driver with a binary protocol
gives its own framing to the line.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

LONGEST_LINE = 1024
"""More bytes than this without a line end are noise, and are dropped."""


class Framing(Protocol):
    """Collect bytes and return whole messages. Any bytes are accepted; memory is bounded."""

    def feed(self, data: bytes) -> None:
        """Add bytes as they arrived."""

    def take(self) -> bytes | None:
        """Remove and return the oldest complete message, or None if there is none."""


class LineBuffer:
    """Framing of a text protocol: one message per line, without its line end."""

    def __init__(self) -> None:
        self._partial = bytearray()
        self._lines: deque[bytes] = deque()

    def feed(self, data: bytes) -> None:
        self._partial += data
        *complete, rest = self._partial.split(b"\n")
        self._lines.extend(bytes(line.rstrip(b"\r")) for line in complete)
        self._partial = rest if len(rest) <= LONGEST_LINE else bytearray()

    def take(self) -> bytes | None:
        return self._lines.popleft() if self._lines else None
