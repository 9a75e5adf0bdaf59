"""The connection to a board: opened, lost, opened again, and waited on with a way to stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf

from macontrol.config.model.errors import LineError, LineLostError, StopRequestedError
from macontrol.hal.clock import Clock
from macontrol.hal.serial.line import Line
from macontrol.hal.serial.position import Position

# How often `keep_on` is called during a long wait.
_POLL_INTERVAL_S = 0.1
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 2.0


class Connection:
    """One line that is opened and closed as needed. To lose it is to lose the position."""

    def __init__(
        self, port: str, clock: Clock, position: Position, open_line: Callable[[], Line]
    ) -> None:
        self._port = port
        self._clock = clock
        self._position = position
        self._open_line = open_line
        self._line: Line | None = None
        self._keep_on: Callable[[], bool] | None = None

    @property
    def is_open(self) -> bool:
        return self._line is not None

    def open(self) -> None:
        """Open the port; raise LineError if that fails."""
        self.close()
        self._line = self._open_line()

    def reopen(self, deadline_s: float) -> None:
        """Open the port, with attempts at growing intervals until the deadline."""
        pause = _FIRST_PAUSE_S
        while True:
            try:
                self._line = self._open_line()
                return
            except LineError:
                if self._clock.now() + pause >= deadline_s:
                    raise
            self.wait_until(self._clock.now() + pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def close(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            line.close()

    @contextmanager
    def interruptible(self, keep_on: Callable[[], bool] | None) -> Iterator[None]:
        """A time in which every wait raises StopRequestedError once `keep_on` returns False."""
        self._keep_on = keep_on
        try:
            yield
        finally:
            self._keep_on = None

    def _slices(self, deadline_s: float) -> Iterator[float]:
        """The ends of the short waits that make up a long one; the last one is the deadline."""
        while self._keep_on is not None and (now := self._clock.now()) < deadline_s:
            if not self._keep_on():
                raise StopRequestedError(f"{self._port}: stop requested")
            yield min(now + _POLL_INTERVAL_S, deadline_s)
        yield deadline_s

    def wait_until(self, moment_s: float) -> None:
        for end_s in self._slices(moment_s):
            self._clock.sleep_until(end_s)

    def read_message(self, deadline_s: float) -> bytes | None:
        """Return the next message, or None if none arrives by the deadline."""
        with self._required_line() as line:
            for end_s in self._slices(deadline_s):
                if (message := line.read_message(end_s)) is not None:
                    return message
        return None

    def write(self, data: bytes, deadline_s: float = inf) -> None:
        """Send bytes unchanged."""
        with self._required_line() as line:
            line.write(data, deadline_s)

    @contextmanager
    def _required_line(self) -> Iterator[Line]:
        """The open line; the position is lost without it, or if it is lost meanwhile."""
        if self._line is None:
            self._position.lose("the connection is closed")
        try:
            yield self._line
        except LineLostError as error:
            self.close()
            self._position.forget(error.detail)
            raise
