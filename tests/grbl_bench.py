"""What the tests of the GRBL stage share: settings, and a connection that follows a script."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, TypeAlias

from macontrol.config.stage_settings import StageSettings
from macontrol.controller.clock import VirtualClock
from macontrol.hal.grbl import GrblStage
from macontrol.hal.serial_line import LineError, LineLostError

BANNER = b"Grbl 1.1h ['$' for help]"
LOCKED = b"[MSG:'$H'|'$X' to unlock]"
BUILD = (b"[VER:1.1h.20190830:]", b"[OPT:V,15,128]", b"ok")
SETTINGS = (
    *(b"$1=255", b"$13=0", b"$20=1", b"$21=1", b"$22=1", b"$23=0", b"$24=600.000"),
    *(b"$25=3000.000", b"$26=25", b"$27=2.000", b"$100=80.000", b"$110=6000.000"),
    *(b"$120=500.000", b"$130=100.000", b"ok"),
)
UNPLUGGED = b"(unplugged)"
COMMENT = b"(" + b"-" * 33 + b")\n\n"
MOVE = b"G21G90G94G53G1X%sF6000.0\nG4P0\n"

Answer: TypeAlias = bytes | tuple[float, bytes]
Exchange: TypeAlias = tuple[bytes, Sequence[Answer]]


def stage_settings(port: str = "/dev/ttyTEST", **changes: Any) -> StageSettings:
    """Settings that leave everything to the board and allow it to be homed."""
    values: dict[str, Any] = {
        "driver": "grbl",
        "port": port,
        "baud_rate": 115200,
        "dtr": "assert",
        "rts": "assert",
        "axis": "X",
        "device_address": 1,
        "microstep_mm": "unknown",
        "offset_mm": 0.0,
        "travel_mm": "auto",
        "inverted": False,
        "speed_mm_per_s": "auto",
        "settling_s": 0.0,
        "homing": "allow",
        "homing_command": "auto",
        "homing_direction": "auto",
        "homing_time_s": "auto",
        "rehome_every_s": "off",
    }
    return StageSettings.model_validate({**values, **changes})


def status(state: str, x: float = -2.0, more: str = "") -> bytes:
    return f"<{state}|MPos:{x:.3f},0.000,0.000|FS:0,0{more}>".encode("ascii")


class ScriptedLine:
    """A board by script: each write must be the next in it, and is followed by its answers.

    An answer is a line, or a pair of a delay in seconds and a line. Time passes only in waiting.
    """

    def __init__(self, clock: VirtualClock, *script: Exchange) -> None:
        self._clock = clock
        self._script = deque(script)
        self._answers: deque[tuple[float, bytes]] = deque()
        self.is_open = True
        if self._script and self._script[0][0] == b"":
            self._queue(self._script.popleft()[1])

    def _queue(self, answers: Sequence[Answer]) -> None:
        due = self._clock.now()
        for answer in answers:
            delay, line = answer if isinstance(answer, tuple) else (0.001, answer)
            due += delay
            self._answers.append((due, line))

    def extend(self, *script: Exchange) -> None:
        assert not self._script, f"not said: {list(self._script)}"
        self._script.extend(script)
        if self._script and self._script[0][0] == b"":
            self._queue(self._script.popleft()[1])

    def write(self, data: bytes) -> None:
        assert self.is_open
        assert self._script, f"{data!r} was sent, and nothing was to be"
        expected, answers = self._script.popleft()
        assert data == expected
        self._queue(answers)

    def read_line(self, deadline_s: float) -> bytes | None:
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


def greeting(*, state: str = "Alarm", settings: Sequence[bytes] = SETTINGS) -> list[Exchange]:
    """A board that resets when it is opened, up to the end of `connect`."""
    timed: Exchange = (COMMENT, [(0.003, b"ok"), b"ok"])
    return [
        (b"", [(0.5, BANNER), LOCKED]),
        (b"?", [status(state, 0.0)]),
        (b"$I\n", BUILD),
        (b"$$\n", settings),
        *[timed] * 12,
    ]


HOMING: list[Exchange] = [
    (b"$H\n", [(2.0, b"ok")]),
    (b"?", [status("Idle", -2.0)]),
]


class Desk:
    """A scripted board and the stage that talks to it."""

    def __init__(self, *script: Exchange, opens: int = 1, **changes: Any) -> None:
        self.clock = VirtualClock(100.0)
        self.line = ScriptedLine(self.clock, *script)
        self.confirmed = True
        self._opens = opens

        self.refuses_to_open = False

        def open_line() -> ScriptedLine:
            if self.refuses_to_open:
                raise LineError("/dev/ttyTEST does not exist")
            self._opens -= 1
            assert self._opens >= 0, "opened too often"
            self.line.is_open = True
            return self.line

        self.stage = GrblStage(
            stage_settings(**changes),
            self.clock,
            open_line=open_line,
            confirm_homing=lambda: self.confirmed,
        )

    def soon(self, seconds: float = 30.0) -> float:
        return self.clock.now() + seconds


def homed_desk(*, settings: Sequence[bytes] = SETTINGS, **changes: Any) -> Desk:
    """A desk whose stage is connected and homed."""
    desk = Desk(*greeting(settings=settings), *HOMING, **changes)
    desk.stage.connect(desk.soon())
    desk.stage.home(desk.soon())
    desk.line.assert_consumed()
    return desk
