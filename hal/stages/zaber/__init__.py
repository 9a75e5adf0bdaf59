"""Stages with the Zaber ASCII protocol."""

from macontrol.hal.registry import StageDriver
from macontrol.hal.stages.zaber.settings import ZaberSettings

DESCRIPTION = StageDriver(
    name="zaber",
    label="Zaber device",
    settings=ZaberSettings,
    stage="macontrol.hal.stages.zaber.driver:ZaberStage",
    diagnostics="macontrol.hal.stages.zaber.diagnostics:ZaberDiagnostics",
    preset="lab-5g8-zaber",
    emulator="macontrol.sim.bench.boards.zaber:guide_board",
    usb_ids={"2939": "Zaber stage"},
)
