"""What a driver tells the doctor about its device, beyond the Stage and Probe protocols."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from macontrol.config.sections.stage import StageSettings


class Diagnosis(NamedTuple):
    """What is wrong with a device, or could be better, and what to do."""

    detail: str
    fix: str


class StageCheckup(Protocol):
    """Diagnoses a stage from the traffic while it is connected. Sends nothing itself."""

    def log(self, direction: str, data: bytes) -> None:
        """Take in what went over the wire; the driver's traffic log."""

    @property
    def board(self) -> str:
        """Name and version of the board; empty if it did not answer."""

    @property
    def state(self) -> str:
        """The last state that the board reported."""

    def trouble(self, settings: StageSettings) -> Diagnosis | None:
        """What prevents the board from being homed; None if nothing does."""

    def advice(self, settings: StageSettings) -> Sequence[Diagnosis]:
        """What could be better, though the board can be used as it is."""
