"""A stage of macontrol: a stepper motor on an Arduino-style board with the sketch `stepper`."""

from macontrol.hal.registry import StageDriver
from stepper_stage.settings import StepperSettings

DESCRIPTION = StageDriver(
    name="stepper",
    label="stepper board",
    settings=StepperSettings,
    stage="stepper_stage.driver:StepperStage",
    diagnostics="stepper_stage.diagnostics:StepperDiagnostics",
    preset="lab-stepper",
    emulator="stepper_stage.emulator:guide_board",
    usb_ids={"2341:0043": "Arduino Uno"},
)
