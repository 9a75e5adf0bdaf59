"""A stage driven by a GRBL 1.1 board, or one of its dialects (grblHAL, FluidNC).

A reported position is used only between a homing and the next banner, alarm or loss of connection:
each of those makes the position unknown, and the stage is homed before it moves again.
"""

from __future__ import annotations

from typing import Unpack

from macontrol.hal.clock import Clock
from macontrol.hal.serial.stage import SerialParts, SerialStage, StageOptions
from macontrol.hal.stages.grbl.handshake import GrblHandshake
from macontrol.hal.stages.grbl.homing import GrblHoming
from macontrol.hal.stages.grbl.motion import GrblMotion
from macontrol.hal.stages.grbl.session import GrblSession
from macontrol.hal.stages.grbl.settings import GrblSettings


class GrblStage(SerialStage):
    """A linear stage on one axis of a GRBL board. Its parts are public for tests and tools."""

    def __init__(
        self, settings: GrblSettings, clock: Clock, **options: Unpack[StageOptions]
    ) -> None:
        parts = SerialParts(settings, clock, board="board", **options)
        self.session = GrblSession(parts)
        self.handshake = GrblHandshake(self.session)
        self.motion = GrblMotion(self.session, self.handshake)
        homing = GrblHoming(self.session, self.handshake, self.motion)
        super().__init__(parts, self.handshake, homing, self.motion)
