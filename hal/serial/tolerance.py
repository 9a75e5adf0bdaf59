"""Tolerance of a fault that may be chance, such as noise on the wire of a limit switch."""

from __future__ import annotations

from math import inf

from macontrol.hal.clock import Clock
from macontrol.hal.serial.position import Position

_TOLERANCE_S = 600.0


class FaultTolerance:
    """A fault is tolerated once per `_TOLERANCE_S`; the next one needs a person."""

    def __init__(self, clock: Clock, position: Position) -> None:
        self._clock = clock
        self._position = position
        self._fault: tuple[str, str] | None = None
        self._tolerated_at_s = -inf

    def note(self, detail: str, fix: str) -> None:
        """Note a fault; `fix` says what a person has to do if it occurs again."""
        self._fault = detail, fix

    def tolerate(self) -> None:
        """Tolerate the noted fault, or raise StageBrokenError if it is the second one."""
        fault, self._fault = self._fault, None
        if fault is None:
            return
        now = self._clock.now()
        if now - self._tolerated_at_s < _TOLERANCE_S:
            detail, fix = fault
            self._position.give_up(f"{detail} (for the second time)", fix)
        self._tolerated_at_s = now
