"""The `[stage.stepper]` table."""

from __future__ import annotations

from typing import Literal

from macontrol.config.sections.section import Words
from macontrol.config.sections.stage import SerialStageSettings


class StepperSettings(SerialStageSettings):
    """A board with the sketch `stepper`."""

    driver: Literal["stepper"] = "stepper"
    board: Words = "any"
    """the NAME in the sketch of the board that may be driven; or "any\""""
