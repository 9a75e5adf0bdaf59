"""Motion outside the slots: bring the antenna to a position, stroke by stroke.

Used for the way to the start position, along the rail in a survey, and back from the limit switch
after homing.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from macontrol.config import Config
from macontrol.config.model.errors import CommandRefusedError, StageError, StillMovingError
from macontrol.controller.recording.events import EventKind
from macontrol.controller.recording.records import Recorder
from macontrol.controller.runtime.guard import Guard
from macontrol.controller.runtime.patience import Patience
from macontrol.controller.runtime.rail import Rail
from macontrol.controller.runtime.recovery import Recovery
from macontrol.controller.runtime.stop import StopToken
from macontrol.hal import Clock

_CLEAR_RAIL = "check whether something blocks the carriage"


class Approach:
    """Moves the antenna to a position; faults are reported and tolerated as within a slot."""

    def __init__(
        self,
        guard: Guard,
        rail: Rail,
        clock: Clock,
        patience: Patience,
        recovery: Recovery,
        keep_on: Callable[[], bool],
        *,
        stroke_s: float,
    ) -> None:
        """A stroke may take `stroke_s`."""
        self._guard = guard
        self._rail = rail
        self._clock = clock
        self._patience = patience
        self._recovery = recovery
        self._keep_on = keep_on
        self._stroke_s = stroke_s

    @classmethod
    def before_slots(
        cls,
        config: Config,
        guard: Guard,
        clock: Clock,
        recorder: Recorder,
        stop: StopToken,
        may_move: Callable[[], bool] | None = None,
    ) -> Approach:
        """One with a patience and a recovery of its own: no slot shares them.

        `may_move` is called before each stroke. It may wait; no stroke follows once it returns
        False.
        """
        patience = Patience("stage", config.timing.fault_patience_s, clock, recorder)
        recovery = Recovery(guard, patience, clock, recorder, stop.keep_on)
        keep_on = may_move or stop.keep_on
        stroke_s = config.physical.slot_duration_s
        return cls(guard, Rail(config), clock, patience, recovery, keep_on, stroke_s=stroke_s)

    def run(self, position: float) -> float:
        """Go to a position; return the reported one (both in wavelengths).

        Return earlier when the run is stopped; the result is NaN then if no position is known.
        """
        wanted_mm, arrived, nearest_mm = self._rail.to_mm(position), False, inf
        while not arrived and self._keep_on():
            end_s = self._clock.now() + self._stroke_s
            try:
                arrived = self._advance(wanted_mm, end_s)
                left_mm = abs(wanted_mm - self._guard.reported_mm)
                # A stage that only claims its arrivals is found at its start again: no progress.
                if arrived or left_mm < nearest_mm:
                    nearest_mm = left_mm
                    self._patience.recovered(0)
            except StillMovingError as late:
                self._patience.failed(0, EventKind.LATE_ARRIVAL, late)
                self._clock.sleep_until(end_s)
            except StageError as fault:
                self._recovery.failed(0, fault)
                self._clock.sleep_until(end_s)
            if self._recovery.is_needed and self._keep_on():
                self._recovery.run(0)
        return self._rail.to_wavelengths(self._guard.reported_mm)

    def _advance(self, wanted_mm: float, end_s: float) -> bool:
        """Send the stage one stroke towards the position; return whether it is there."""
        guard = self._guard
        if not guard.is_standing and not guard.locate(end_s).arrived:
            raise StillMovingError(f"the stage is still moving, at {guard.reported_mm:.3f} mm")
        reported, stroke = guard.reported_mm, guard.stroke_mm
        left = wanted_mm - reported
        is_last = abs(left) <= stroke
        step = wanted_mm if is_last else reported + (stroke if left > 0 else -stroke)
        try:
            command = guard.command_for(step)
        except CommandRefusedError as refusal:
            raise StageError(f"the stage cannot move from its position: {refusal}") from None
        if guard.is_at(command):
            if not guard.is_close(wanted_mm):
                raise StageError(
                    f"the stage at {reported:.3f} mm cannot come closer to {wanted_mm:.3f} mm: its "
                    f"steps of {guard.step_mm:g} mm are too long for strokes of {stroke:g} mm",
                    "set physical.stroke to several steps of the stage",
                )
            return True
        self._move(command, end_s)
        if is_last:
            return True  # close enough: a stage with an encoder may never be exact to the step
        if abs(wanted_mm - guard.reported_mm) >= abs(left):
            raise self._elsewhere(reported, command)
        return False

    def _move(self, command: float, end_s: float) -> None:
        guard, origin = self._guard, self._guard.reported_mm
        if not guard.move(command, end_s).arrived:
            raise StillMovingError(
                f"the stage did not report its arrival in time on the way from {origin:.3f} mm to "
                f"{command:.3f} mm; its last report was {guard.reported_mm:.3f} mm",
                f"{_CLEAR_RAIL}, and whether this computer is too busy",
            )
        if not guard.is_close(command):
            raise self._elsewhere(origin, command)

    def _elsewhere(self, origin: float, command: float) -> StageError:
        return StageError(
            f"the stage was sent from {origin:.3f} mm to {command:.3f} mm and arrived at "
            f"{self._guard.reported_mm:.3f} mm",
            _CLEAR_RAIL,
        )
