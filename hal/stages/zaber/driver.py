"""A stage driven by a Zaber device, in its ASCII protocol (firmware 6 and 7).

A reported position is used only between a homing of this driver and the next flag that makes it
void, or a loss of connection: then the position is unknown, and the stage is homed before it moves
again. The driver stores nothing in the device, except the request to send checksums.
"""

from __future__ import annotations

from typing import Unpack

from macontrol.hal.clock import Clock
from macontrol.hal.serial.stage import SerialParts, SerialStage, StageOptions
from macontrol.hal.stages.zaber.handshake import ZaberHandshake
from macontrol.hal.stages.zaber.homing import ZaberHoming
from macontrol.hal.stages.zaber.motion import ZaberMotion
from macontrol.hal.stages.zaber.session import ZaberSession
from macontrol.hal.stages.zaber.settings import ZaberSettings


class ZaberStage(SerialStage):
    """A linear stage on one axis of a Zaber device. Its parts are public for tests and tools."""

    def __init__(
        self, settings: ZaberSettings, clock: Clock, **options: Unpack[StageOptions]
    ) -> None:
        parts = SerialParts(settings, clock, board="device", **options)
        self.session = ZaberSession(parts)
        self.handshake = ZaberHandshake(self.session)
        self.motion = ZaberMotion(self.session, self.handshake)
        homing = ZaberHoming(self.session, self.handshake)
        super().__init__(parts, self.handshake, homing, self.motion)
