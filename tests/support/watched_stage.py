"""A stage that checks every command that the guard passes on to it."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite, nan

from macontrol.hal import Arrival, Stage, StageDescription


class WatchedStage:
    """Between a guard and a stage: compares every command with the last report.

    It collects violations in `objections`: an exception would look like a fault of the stage.
    """

    def __init__(self, stage: Stage, *, region_mm: float, stroke_mm: float) -> None:
        self._stage = stage
        self._region_mm = region_mm
        self._stroke_mm = stroke_mm
        self._reported: Arrival | None = None
        self.commands = 0
        self.farthest_mm = 0.0
        self.objections: list[str] = []

    @property
    def description(self) -> StageDescription:
        return self._stage.description

    def move_to(self, position_mm: float, deadline_s: float) -> Arrival:
        self.commands += 1
        reported = nan if self._reported is None else self._reported.position_mm
        if self._reported is None or not self._reported.arrived or not isfinite(reported):
            self.objections.append(f"{position_mm!r} sent to a stage last known as {reported!r}")
        if not abs(position_mm - reported) <= self._stroke_mm + 1e-9:
            self.objections.append(f"{position_mm!r} is beyond reach of {reported!r}")
        if not -1e-9 <= position_mm <= self._region_mm + 1e-9:
            self.objections.append(f"{position_mm!r} is off the region")
        step = self.description.step_mm
        if step and abs(position_mm - round(position_mm / step) * step) > 1e-9:
            self.objections.append(f"{position_mm!r} is not a whole number of steps")
        self.farthest_mm = max(self.farthest_mm, abs(position_mm - reported))
        self._reported = None
        self._reported = self._stage.move_to(position_mm, deadline_s)
        return self._reported

    def where(self, deadline_s: float) -> Arrival:
        self._reported = None
        self._reported = self._stage.where(deadline_s)
        return self._reported

    def stop(self) -> None:
        self._reported = None
        self._stage.stop()

    @property
    def homing_is_due(self) -> bool:
        return self._stage.homing_is_due

    def recover(self, deadline_s: float, keep_on: Callable[[], bool]) -> None:
        self._reported = None
        self._stage.recover(deadline_s, keep_on)

    def close(self) -> None:
        self._stage.close()
