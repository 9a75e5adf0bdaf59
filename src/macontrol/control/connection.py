"""One client of the server: bounded input, bounded output, bounded rates."""

from __future__ import annotations

import selectors
import socket
import time
from typing import Any

from macontrol.control.messages import LINE_LIMIT, notification

REQUESTS_PER_S = 200
_MOST_PENDING = 8
"""Requests of one client that wait for the daemon."""
_FULL = 1 << 16
"""With this many unread bytes a client gets no snapshots, and its requests wait."""
_FULL_EVENTS = 1 << 18
MOST_UNREAD = 1_000_000
"""Beyond this many unread bytes a client is disconnected, …"""
STALLED_S = 10.0
"""… and also if it reads nothing for this long."""
_CHUNK = 1 << 16


class Bucket:
    """A rate limit: `take` at most `most` times at once, and `per_s` times per second."""

    def __init__(self, per_s: float, most: float) -> None:
        self._per_s, self._most = per_s, most
        self._left, self._at_s = most, time.monotonic()

    def take(self) -> bool:
        """Take one if there is one."""
        now = time.monotonic()
        self._left = min(self._most, self._left + (now - self._at_s) * self._per_s)
        self._at_s = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class Connection:
    """A connected client."""

    def __init__(self, connected: socket.socket, user: str, pid: int) -> None:
        self.socket = connected
        self.name = ""
        self.rate = 0.0
        self.wants_events = False
        self.pending = 0
        """Requests that are not answered."""
        self.is_broken = False
        self._user, self._pid = user, pid
        self._in, self._out = bytearray(), bytearray()
        self._has_ended = False
        self._is_limited = False
        self._requests = Bucket(REQUESTS_PER_S, REQUESTS_PER_S)
        self._next_snapshot_s = 0.0
        self._dropped = 0
        self._moved_s = time.monotonic()

    @property
    def origin(self) -> str:
        """Who acts, for the run file: user, process, program."""
        return f"{self._user} (pid {self._pid}{f', {self.name}' if self.name else ''})"

    @property
    def is_waiting(self) -> bool:
        """Whether its requests wait: for its rate, for answers, or because it does not read."""
        return self._is_limited or self.pending >= _MOST_PENDING or len(self._out) > _FULL

    @property
    def is_busy(self) -> bool:
        """Whether it must be looked at soon, without anything new from it."""
        return bool(self._out) or (self.is_waiting and b"\n" in self._in)

    @property
    def is_over(self) -> bool:
        """Whether to close the connection."""
        if self.is_broken or len(self._out) > MOST_UNREAD:
            return True
        if self._has_ended:
            return not self._out and not self.pending and b"\n" not in self._in
        return bool(self._out) and time.monotonic() - self._moved_s > STALLED_S

    @property
    def interest(self) -> int:
        """What the selector waits for."""
        can_take = not self._has_ended and len(self._in) < LINE_LIMIT and not self.is_waiting
        events = selectors.EVENT_READ if can_take else 0
        return events | (selectors.EVENT_WRITE if self._out else 0)

    def end(self) -> None:
        """Close the connection when the answers are sent."""
        self._has_ended = True
        self._in.clear()

    def receive(self) -> None:
        """Take what has arrived, up to a line."""
        if self._has_ended or len(self._in) >= LINE_LIMIT or self.is_waiting:
            return
        try:
            found = self.socket.recv(LINE_LIMIT)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.is_broken = True
            return
        if found:
            self._in += found
        else:
            self._has_ended = True
            self.rate, self.wants_events = 0.0, False

    def next_line(self) -> bytes | None:
        """The next request, if the client may make one now; an endless line as it is so far."""
        end = self._in.find(b"\n", 0, LINE_LIMIT)
        if end < 0 and len(self._in) < LINE_LIMIT:
            return None
        self._is_limited = False
        if self.is_waiting:
            return None
        if not self._requests.take():
            self._is_limited = True
            return None
        end = LINE_LIMIT if end < 0 else end
        line = bytes(self._in[:end])
        del self._in[: end + 1]
        return line

    def subscribe(self, rate: float, *, events: bool) -> None:
        """From now on, send `rate` snapshots per second, and events if wanted."""
        self.rate, self.wants_events = rate, events
        self._next_snapshot_s = 0.0

    def offer_snapshot(self, line: bytes) -> None:
        """Send a snapshot if one is due and the client reads."""
        now = time.monotonic()
        if self.rate == 0 or len(self._out) > _FULL or now < self._next_snapshot_s:
            return
        # Half of the daemon's shortest interval early: a snapshot that comes a little early counts.
        self._next_snapshot_s = max(now, self._next_snapshot_s) + 1 / self.rate - 0.05
        self.send(line)

    def offer_events(self, events: list[dict[str, Any]], dropped: int) -> None:
        """Send events if wanted; count those that a slow client cannot take."""
        if not self.wants_events:
            return
        self._dropped += dropped
        for number, event in enumerate(events):
            if len(self._out) > _FULL_EVENTS:
                self._dropped += len(events) - number
                return
            self.send(notification("event", event))
        if self._dropped:
            self.send(notification("dropped", {"events": self._dropped}))
            self._dropped = 0

    def send(self, line: bytes) -> None:
        """Send a line when the client reads."""
        if not self._out:
            self._moved_s = time.monotonic()
        self._out += line
        self.flush()

    def flush(self) -> None:
        """Send as much as the client takes now."""
        try:
            while self._out:
                del self._out[: self.socket.send(self._out[:_CHUNK])]
                self._moved_s = time.monotonic()
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self.is_broken = True
