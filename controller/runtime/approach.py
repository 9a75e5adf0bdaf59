"""Outside the slots: the antenna is brought to a position, stroke by stroke.

So it gets to where a run starts, along the rail in a survey, and back from the switch after homing.
"""

from __future__ import annotations

from collections.abc import Callable

from macontrol.config.model.errors import CommandRefusedError, StageError, StillMovingError
from macontrol.controller.recording.records import EventKind
from macontrol.controller.recording.tally import Tally
from macontrol.controller.runtime.guard import Guard
from macontrol.controller.runtime.patience import Patience
from macontrol.controller.runtime.recovery import Recovery
from macontrol.hal import Clock


class Approach:
    """Takes a stage to a position (mm). Faults are reported, and tolerated as long as in a slot."""

    def __init__(
        self,
        guard: Guard,
        clock: Clock,
        patience: Patience,
        recovery: Recovery,
        tally: Tally,
        *,
        stroke_s: float,
    ) -> None:
        self._guard = guard
        self._clock = clock
        self._patience = patience
        self._recovery = recovery
        self._tally = tally
        self._stroke_s = stroke_s

    def run(self, wanted_mm: float, is_stopped: Callable[[], bool]) -> None:
        """Return when the stage stands there, or when stopped."""
        there = False
        while not there and not is_stopped():
            ends_s = self._clock.now() + self._stroke_s
            try:
                there = self._advance(wanted_mm, ends_s)
                self._patience.recovered(0)
            except StillMovingError as late:
                self._tally.late_arrivals += 1
                self._patience.failed(0, EventKind.LATE_ARRIVAL, late)
                self._clock.sleep_until(ends_s)
            except StageError as fault:
                self._recovery.failed(0, fault)
                self._clock.sleep_until(ends_s)
            if self._recovery.is_needed and not is_stopped():
                self._recovery.run(0)

    def _advance(self, wanted_mm: float, ends_s: float) -> bool:
        """Whether the stage stands there; if not, send it one stroke towards it."""
        guard = self._guard
        if not guard.is_standing and not guard.locate(ends_s).arrived:
            raise StillMovingError(f"the stage is still moving, at {guard.reported_mm:.3f} mm")
        reported, stroke = guard.reported_mm, guard.stroke_mm
        left = wanted_mm - reported
        step = wanted_mm if abs(left) <= stroke else reported + (stroke if left > 0 else -stroke)
        try:
            command = guard.command_for(step)
        except CommandRefusedError as refusal:
            raise StageError(f"the stage cannot be moved from where it is: {refusal}") from None
        if guard.is_at(command):
            if not guard.is_close(wanted_mm):
                raise StageError(
                    f"at {reported:.3f} mm, the stage cannot get nearer to {wanted_mm:.3f} mm: its "
                    f"steps of {guard.step_mm:g} mm are too long for strokes of {stroke:g} mm"
                )
            return True
        arrival = guard.move(command, ends_s)
        sent, seen_mm = f"sent from {reported:.3f} mm to {command:.3f} mm", arrival.position_mm
        if not arrival.arrived:
            raise StillMovingError(
                f"{sent}, the stage did not report its arrival in time, and was last seen at "
                f"{seen_mm:.3f} mm; is it blocked, or this computer too busy?"
            )
        elsewhere = f"{sent}, the stage got to {seen_mm:.3f} mm; is it blocked?"
        if not guard.is_close(command):
            raise StageError(elsewhere)
        if abs(left) <= stroke:
            return True  # close enough: one with an encoder may never stand there to the step
        if abs(wanted_mm - seen_mm) >= abs(left):
            raise StageError(elsewhere)
        return False
