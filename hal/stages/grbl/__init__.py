"""Stages driven by a GRBL 1.1 board or one of its dialects (grblHAL, FluidNC)."""

from macontrol.hal.registry import StageDriver
from macontrol.hal.stages.grbl.settings import GrblSettings

DESCRIPTION = StageDriver(
    name="grbl",
    label="GRBL board",
    settings=GrblSettings,
    stage="macontrol.hal.stages.grbl.driver:GrblStage",
    diagnostics="macontrol.hal.stages.grbl.diagnostics:GrblDiagnostics",
    preset="lab-2g4-grbl",
    emulator="macontrol.sim.bench.boards.grbl.board:guide_board",
)
