"""A scripted serial line: a board that follows a script, for tests of a serial stage.

Time is virtual, so a dialogue of minutes takes milliseconds, and every run is the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import inf
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, Unpack

from macontrol.config.model.errors import LineError, LineLostError
from macontrol.controller.runtime.clock import VirtualClock
from macontrol.hal.clock import Clock
from macontrol.hal.serial.stage import SerialStage, StageOptions

UNPLUGGED = b"(unplugged)"
"""An answer that stands for a cable that is disconnected."""

Answer: TypeAlias = bytes | tuple[float, bytes]
Exchange: TypeAlias = tuple[bytes, Sequence[Answer]]


class ScriptedLine:
    """A board that follows a script: each write must be the next in it, and its answers follow.

    An answer is a line, or a pair of a delay in seconds and a line. Answers to an empty write are
    sent without one. Time passes only while the stage waits.
    """

    def __init__(self, clock: VirtualClock, *script: Exchange) -> None:
        self._clock = clock
        self._script = deque(script)
        self._answers: deque[tuple[float, bytes]] = deque()
        self.is_open = True
        self._send_unprompted()

    def _send_unprompted(self) -> None:
        if self._script and self._script[0][0] == b"":
            self._queue(self._script.popleft()[1])

    def _queue(self, answers: Sequence[Answer]) -> None:
        due = self._clock.now()
        for answer in answers:
            delay, line = answer if isinstance(answer, tuple) else (0.001, answer)
            due += delay
            self._answers.append((due, line))

    def extend(self, *script: Exchange) -> None:
        assert not self._script, f"not sent: {list(self._script)}"
        self._script.extend(script)
        self._send_unprompted()

    def append(self, exchange: Exchange) -> None:
        """Continue with this exchange after the present script."""
        self._script.append(exchange)

    def write(self, data: bytes, deadline_s: float = inf) -> None:
        assert self.is_open
        assert self._script, f"{data!r} was sent after the end of the script"
        expected, answers = self._script.popleft()
        assert data == expected
        self._queue(answers)

    def read_message(self, deadline_s: float) -> bytes | None:
        assert self.is_open
        if not self._answers or self._answers[0][0] > deadline_s:
            self._clock.sleep_until(deadline_s)
            return None
        due, line = self._answers.popleft()
        self._clock.sleep_until(due)
        if line == UNPLUGGED:
            self.is_open = False
            raise LineLostError("/dev/ttyTEST: the port is gone")
        return line

    def close(self) -> None:
        self.is_open = False

    def assert_consumed(self) -> None:
        assert not self._script, f"not sent: {list(self._script)}"
        unread = [line for _, line in self._answers]
        assert not unread, f"not read: {unread}"


_Stage = TypeVar("_Stage", bound=SerialStage, covariant=True)


class Driver(Protocol[_Stage]):
    """The constructor of a serial stage."""

    def __call__(self, settings: Any, clock: Clock, **options: Unpack[StageOptions]) -> _Stage: ...


class StageDesk(Generic[_Stage]):
    """A scripted board and the stage that is connected to it."""

    def __init__(
        self, driver: Driver[_Stage], settings: Any, *script: Exchange, opens: int
    ) -> None:
        self.clock = VirtualClock(100.0)
        self.line = ScriptedLine(self.clock, *script)
        self.confirmed = True
        self.refuses_to_open = False
        self._opens = opens
        self.stage = driver(
            settings,
            self.clock,
            open_line=self._open_line,
            confirm_homing=lambda: self.confirmed,
        )

    def _open_line(self) -> ScriptedLine:
        if self.refuses_to_open:
            raise LineError("/dev/ttyTEST does not exist")
        self._opens -= 1
        assert self._opens >= 0, "opened too often"
        self.line.is_open = True
        return self.line

    def soon(self, seconds: float = 30.0) -> float:
        return self.clock.now() + seconds
