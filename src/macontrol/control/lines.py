"""The link between a daemon and its server: JSON objects, one per line, on a socket pair.

Neither side waits for the other: what does not fit is refused, and the sender decides what to do.
"""

from __future__ import annotations

import array
import base64
import json
import socket
from typing import Any

_MOST_UNSENT = 4_000_000
"""Bytes; one posterior has at most about 100 kB."""
_MOST_UNREAD = 8_000_000
_CHUNK = 1 << 16


class Lines:
    """One end of the link."""

    def __init__(self, link: socket.socket) -> None:
        link.setblocking(False)
        self._link = link
        self._out = bytearray()
        self._in = bytearray()
        self.is_closed = False
        """Whether the other end has gone."""

    @property
    def unsent(self) -> int:
        """Bytes that wait for the other end."""
        return len(self._out)

    def send(self, message: dict[str, Any]) -> bool:
        """Send a message, or refuse it if too much waits already."""
        if len(self._out) > _MOST_UNSENT:
            return False
        self._out += json.dumps(message, allow_nan=False, separators=(",", ":")).encode() + b"\n"
        self.flush()
        return True

    def flush(self) -> None:
        """Send as much as the other end takes now."""
        try:
            while self._out:
                del self._out[: self._link.send(self._out[:_CHUNK])]
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.is_closed = True

    def read(self) -> list[dict[str, Any]]:
        """The messages that have arrived."""
        try:
            while len(self._in) < _MOST_UNREAD:
                found = self._link.recv(_CHUNK)
                if not found:
                    self.is_closed = True
                    break
                self._in += found
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self.is_closed = True
        *whole, rest = self._in.split(b"\n")
        self._in = bytearray(rest)
        return [json.loads(line) for line in whole]


def unpack(text: str | None) -> list[float] | None:
    """The numbers that `live_run.pack` wrote, with the digits that they have."""
    if text is None:
        return None
    numbers = array.array("f")
    numbers.frombytes(base64.b64decode(text))
    return [float(f"{number:.7g}") for number in numbers]
