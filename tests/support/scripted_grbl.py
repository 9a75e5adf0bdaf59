"""What the tests of the GRBL stage share: what a board says, and a desk with a scripted one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from macontrol.hal.stages.grbl.driver import GrblStage
from support.scripted_stage import Exchange, StageDesk, stage_settings

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
    """A board that resets when it is opened, up to the end of `connect`."""
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
    """A scripted board and the stage that talks to it."""

    def __init__(self, *script: Exchange, opens: int = 1, **changes: Any) -> None:
        super().__init__(GrblStage, stage_settings(**changes), *script, opens=opens)


def homed_desk(*, settings: Sequence[bytes] = SETTINGS, **changes: Any) -> Desk:
    """A desk whose stage is connected and homed."""
    desk = Desk(*greeting(settings=settings), *HOMING, **changes)
    desk.stage.connect(desk.soon())
    desk.stage.home(desk.soon())
    desk.line.assert_consumed()
    return desk
