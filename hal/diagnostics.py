"""What a driver reports to the doctor about its device, beyond the Stage and Probe protocols."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class Diagnosis(NamedTuple):
    """What is wrong with a device, or could be better, and what to do."""

    detail: str
    fix: str


class StageDiagnostics(Protocol):
    """Diagnoses a stage from the traffic of its handshake; sends nothing itself.

    So it knows the settings of a board even if they are refused, and an alarm even if the handshake
    has cleared it. A driver constructs it with the settings of the stage.
    """

    def log(self, direction: str, data: bytes) -> None:
        """Process bytes that were sent (">") or received ("<"): the traffic log of the stage."""

    @property
    def board(self) -> str:
        """Name and version of the board; empty if it did not answer."""

    @property
    def state(self) -> str:
        """The last state that the board reported."""

    def problem(self) -> Diagnosis | None:
        """What prevents the board from being homed; None if nothing does."""

    def advice(self) -> Sequence[Diagnosis]:
        """What could be better, though the board can be used as it is."""
