"""What the doctor asks a driver about a board: a listener on the traffic of the handshake.

A listener sends nothing. So it knows the settings of a board even if they are refused, and an alarm
even if the handshake has cleared it.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Advice(NamedTuple):
    """Something to change: what was found, and what to do."""

    detail: str
    fix: str


class StageDiagnostics(Protocol):
    """Give its `log` to the stage as the log of its traffic."""

    def log(self, direction: str, data: bytes) -> None:
        """Process bytes that were sent (">") or received ("<")."""
        ...

    @property
    def board(self) -> str:
        """Which board it is; empty if it has not been identified."""
        ...

    @property
    def state(self) -> str:
        """The last state that the board reported."""
        ...

    def problem(self) -> Advice | None:
        """What prevents a run in the state the board was found in; None if nothing does."""
        ...

    def advice(self) -> tuple[Advice, ...]:
        """What works, but should be changed."""
        ...
