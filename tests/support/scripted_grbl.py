"""Shared by the tests of the GRBL stage: what a board sends, and a desk with a scripted board."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from macontrol.hal.stages.grbl.driver import GrblStage
from macontrol.testing import Exchange, StageDesk
from support.scripted_stage import stage_settings

BANNER = b"Grbl 1.1h ['$' for help]"
LOCKED = b"[MSG:'$H'|'$X' to unlock]"
BUILD = (b"[VER:1.1h.20190830:]", b"[OPT:V,15,128]", b"ok")
SETTINGS = (
    *(b"$1=255", b"$13=0", b"$20=1", b"$21=1", b"$22=1", b"$23=0", b"$24=600.000"),
    *(b"$25=3000.000", b"$26=25", b"$27=2.000", b"$100=80.000", b"$110=6000.000"),
    *(b"$120=500.000", b"$130=100.000", b"ok"),
)
COMMENT = b"(" + b"-" * 33 + b")\n\n"
MOVE = b"G21G90G94G53G1X%sF6000.0\nG4P0\n"


def status(state: str, x: float = -2.0, more: str = "") -> bytes:
    return f"<{state}|MPos:{x:.3f},0.000,0.000|FS:0,0{more}>".encode("ascii")


def greeting(*, state: str = "Alarm", settings: Sequence[bytes] = SETTINGS) -> list[Exchange]:
    """The handshake with a board that restarts when its port is opened."""
    timed: list[Exchange] = [
        (b"?", [(0.002, status(state, 0.0))]),
        (COMMENT, [(0.003, b"ok"), b"ok"]),
    ]
    return [
        (b"", [(0.5, BANNER), LOCKED]),
        (b"?", [status(state, 0.0)]),
        *[(b"$I\n", BUILD)] * 2,
        *[(b"$$\n", settings)] * 2,
        *timed * 12,
    ]


HOMING: list[Exchange] = [
    (b"$H\n", [(2.0, b"ok")]),
    (b"?", [status("Idle", -2.0)]),
    (b"?", [status("Idle", -2.0)]),
]


class Desk(StageDesk[GrblStage]):
    """A scripted board and the stage that is connected to it."""

    def __init__(self, *script: Exchange, opens: int = 1, **changes: Any) -> None:
        super().__init__(GrblStage, stage_settings(**changes), *script, opens=opens)


def homed_desk(*, settings: Sequence[bytes] = SETTINGS, **changes: Any) -> Desk:
    """A desk whose stage is connected and homed."""
    desk = Desk(*greeting(settings=settings), *HOMING, **changes)
    desk.stage.connect(desk.soon())
    desk.stage.home(desk.soon())
    desk.line.assert_consumed()
    return desk


AFTER_BANNER = greeting()[1:]
"""What follows a banner."""


REOPENED = [*greeting()[:3], *greeting()[5:]]
"""The handshake with a board that is known: its settings are read only once."""


def with_setting(number: int, value: str) -> list[bytes]:
    """The settings of the board with one of them changed."""
    old = b"$%d=" % number
    kept = [line for line in SETTINGS[:-1] if not line.startswith(old)]
    return [*kept, old + value.encode("ascii"), b"ok"]


def work_status(offset: float | None = None) -> bytes:
    """A report of 3 mm in work coordinates, with their offset if it is given."""
    offset_field = b"" if offset is None else b"|WCO:%.3f,0.000,0.000" % offset
    return b"<Idle|WPos:3.000,0.000,0.000|FS:0,0" + offset_field + b">"


def moving_desk() -> Desk:
    """A desk whose stage is on a long move."""
    desk = homed_desk()
    desk.line.extend((MOVE % b"-92.0000", [b"ok"]))
    assert not desk.stage.move_to(90.0, desk.soon(0.1)).arrived
    return desk


GARBLED_SETTINGS = [line.replace(b"$130=100", b"$130=900") for line in SETTINGS]


SHORTENED_SETTINGS = [*SETTINGS[:4], b"ok"]
