"""Shared by the tests of the Zaber stage: settings, and dialogues with a scripted device."""

from __future__ import annotations

from typing import Any

import pytest

from macontrol.config.model.errors import StageLostError
from macontrol.hal.stages.zaber.driver import ZaberStage
from macontrol.testing import StageDesk
from support.scripted_stage import stage_settings

Answer = str | bytes | tuple[float, str | bytes]
"""A reply without its address ("OK IDLE -- 0") or a whole line (bytes), optionally with a delay."""

SETTINGS = {
    "maxspeed": "153600",
    "deviceid": "50081",
    "system.serial": "12345",
    "resolution": "64",
    "limit.min": "0",
    "limit.max": "100000",
    "accel": "205",
}
"""A rail of 100 mm at 1 µm per microstep, in the order of the questions."""
DEVICE_WIDE = ("version", "deviceid", "system.serial")


def zaber_settings(port: str = "/dev/ttyTEST", **changes: Any) -> Any:
    """Settings of a Zaber stage with everything on "auto" and homing allowed."""
    return stage_settings(port, **{"driver": "zaber", "microstep_mm": 0.001, **changes})


def summed(line: str) -> bytes:
    """A line with its checksum, without its end."""
    body = line[1:].encode("ascii")
    return line[:1].encode("ascii") + body + b":%02X" % (-sum(body) % 256)


class Desk(StageDesk[ZaberStage]):
    """A scripted device and the stage that is connected to it; message numbers count up."""

    def __init__(self, *, opens: int = 1, **changes: Any) -> None:
        super().__init__(ZaberStage, zaber_settings(**changes), opens=opens)
        self.checksums = True
        self._messages = 0

    def expects(self, text: str, *answers: Answer, axis: int = 1) -> None:
        """Add the next command and its replies to the script."""
        self._messages = (self._messages + 1) % 100
        command = summed(f"/1 {axis} {self._messages:02d} {text}".rstrip()) + b"\n"
        lines: list[bytes | tuple[float, bytes]] = []
        for answer in answers:
            delay, line = answer if isinstance(answer, tuple) else (0.001, answer)
            if isinstance(line, str):
                reply = f"@01 {axis} {self._messages:02d} {line}"
                line = summed(reply) if self.checksums else reply.encode("ascii")
            lines.append((delay, line))
        self.line.append((command, lines))

    def expects_greeting(self, *, flag: str = "WR", **settings: str) -> None:
        """The whole of `connect`."""
        self.expects("", f"OK IDLE {flag} 0")
        self.expects_identification(flag=flag, **settings)
        self.expects_timing(f"OK IDLE {flag} 0")

    def expects_identification(
        self, *, flag: str = "WR", position: str = "0", **settings: str
    ) -> None:
        """What follows the first reply: a stop, and questions."""
        self.expects("stop", f"OK IDLE {flag} 0")
        self.expects("get pos", f"OK IDLE {flag} {position}")
        self.expects_identity(flag=flag, **settings)

    def expects_timing(self, answer: str = "OK IDLE WR 0") -> None:
        """The questions that are timed."""
        for _ in range(8):
            self.expects("get pos", (0.003, answer))

    def expects_identity(self, *, flag: str = "WR", **settings: str) -> None:
        values = {**SETTINGS, **{name.replace("_", "."): value for name, value in settings.items()}}
        version = values.pop("version", "7.38")
        self.expects("get version", f"OK IDLE {flag} {version}", axis=0)
        self.expects("get limit.approach.maxspeed", f"OK IDLE {flag} 76800")
        for name, value in values.items():
            self.expects(
                f"get {name}", f"OK IDLE {flag} {value}", axis=0 if name in DEVICE_WIDE else 1
            )

    def expects_homing_begun(self) -> None:
        self.expects("warnings clear", "OK IDLE WR 01 WR")
        self.expects("home", "OK BUSY WR 0")

    def expects_homing(self, *, position: int = 0) -> None:
        self.expects_homing_begun()
        self.expects("get pos", "OK BUSY WR -5000")
        self.expects("get pos", f"OK IDLE -- {position}")
        self.expects("warnings", "OK IDLE -- 00")

    def expects_positions(self, *statuses: str) -> None:
        for status in statuses:
            self.expects("get pos", status)

    def finish(self) -> None:
        self.line.assert_consumed()


def homed_desk(*, device: dict[str, str] | None = None, position: int = 0, **changes: Any) -> Desk:
    """A desk whose stage is connected and homed."""
    desk = Desk(**changes)
    desk.expects_greeting(**(device or {}))
    desk.expects_homing(position=position)
    desk.stage.connect(desk.soon())
    desk.stage.home(desk.soon())
    desk.finish()
    return desk


def stalled_desk(**changes: Any) -> Desk:
    """A desk whose stage is lost after a stall."""
    desk = homed_desk(**changes)
    desk.expects("get pos", "OK IDLE FS 500")
    with pytest.raises(StageLostError):
        desk.stage.where(desk.soon())
    return desk
