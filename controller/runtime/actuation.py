"""The actuation phase: send the antenna to its position and see it arrive by s_t + T_a.

This part knows where the antenna is, and brings it back after a recovery or homing. A stage that
arrives late costs the slot its measurement; the antenna is then where the stage reports it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan

from macontrol.config import Config
from macontrol.config.model.errors import (
    CommandRefusedError,
    SlotGivenUpError,
    StageError,
    StillMovingError,
)
from macontrol.controller.recording.events import EventKind, InvalidReason
from macontrol.controller.recording.records import Event, Recorder
from macontrol.controller.runtime.approach import Approach
from macontrol.controller.runtime.guard import Guard
from macontrol.controller.runtime.patience import Outage, Patience
from macontrol.controller.runtime.rail import Rail
from macontrol.controller.runtime.recovery import Recovery
from macontrol.controller.runtime.waiting import LONG_WAIT_S, Waiting
from macontrol.hal import Clock

# Outside a slot a stroke may take a slot and this time: not longer, so that a stop is noticed.
_APPROACH_EXTRA_S = 0.2
# A stage without a command reports its position this often: a board may lose its position, or its
# cable, while the antenna holds.
_POLL_INTERVAL_S = 1.0
# Within a motion longer than LONG_WAIT_S it reports this often.
_MOTION_POLL_S = 0.05


@dataclass(slots=True)
class Actuated:
    """The result of the phase. Positions in wavelengths."""

    position: float
    """x_t, as the stage reported it; the last known position if it did not."""
    commanded: float | None = None
    """Where the stage was sent; None without a command."""
    origin: float | None = None
    """Where the stage was found at the start of the slot, if it had to report that first."""
    on_time: bool = True
    known_s: float = 0.0
    """When the arrival was known."""
    spent_s: float = 0.0
    """τ_t: how much of the slot the actuation took, as planned or longer."""
    invalid: InvalidReason | None = None
    """Why the slot cannot be measured."""
    homings: int = 0
    """How often the stage was homed since the previous slot."""


class ActuationPhase:
    """Moves the antenna through the guard. Positions in wavelengths."""

    def __init__(
        self, config: Config, guard: Guard, clock: Clock, recorder: Recorder, waiting: Waiting
    ) -> None:
        self._guard = guard
        self._clock = clock
        self._recorder = recorder
        self._waiting = waiting
        self._rail = Rail(config)
        self._rho_max = config.physical.rho_max
        self._plan, self._timing = config.physical.actuation_plan, config.slot_timing
        patience_s = config.timing.fault_patience_s
        self._patience = Patience("stage", patience_s, clock, recorder)
        self._lateness = Outage("the stage was late after every command for", patience_s, clock)
        self.recovery = Recovery(guard, self._patience, clock, recorder, waiting.keep_on)
        self._approach = Approach(
            guard,
            self._rail,
            clock,
            self._patience,
            self.recovery,
            waiting.keep_on,
            stroke_s=config.physical.slot_duration_s + _APPROACH_EXTRA_S,
        )
        self._homings = 0
        self._reported_s: float | None = None
        """When the stage last reported its position."""
        self.position = config.physical.x_0
        """Where the antenna is, as far as known."""

    def approach(self, position: float) -> None:
        """Outside the slots: bring the antenna to a position, stroke by stroke."""
        reported = self._approach.run(position)
        if not isnan(reported):
            self.position = reported

    def recover(self, slot: int) -> str:
        """Recover or home the stage and bring the antenna back; return why slots are missed."""
        reason = self.recovery.run(slot)
        if not self.recovery.is_needed:
            self._approach.run(self._rail.clamp(self.position))
        return reason

    def run(self, slot: int, start_s: float, deadline_s: float, wanted: float | None) -> Actuated:
        """Send the antenna to a position and see it arrive before the deadline.

        Without a position it stays where it is, or where it is found.
        """
        before = self.position
        result = Actuated(before)
        if self._reported_s is None:
            self._reported_s = start_s
        try:
            self._actuate(slot, start_s, deadline_s, wanted, result)
        except CommandRefusedError as refusal:
            self._guard.doubt()  # if the policy is right, the stage is not where it reported
            refused = self.position if wanted is None else wanted
            self._report(slot, EventKind.REFUSED, str(refusal), refused)
        except StillMovingError as late:
            result.on_time, result.invalid = False, InvalidReason.STILL_MOVING
            self._patience.failed(slot, EventKind.LATE_ARRIVAL, late)
        except StageError as fault:
            result.on_time, result.invalid = False, InvalidReason.STAGE_FAULT
            self.recovery.failed(slot, fault, commanded=result.commanded is not None)
        result.known_s = self._clock.now()
        self._judge(slot, deadline_s, result)
        result.spent_s = self._spent_s(start_s, before, result)
        self._locate_antenna(result)
        return result

    def _spent_s(self, start_s: float, before: float, result: Actuated) -> float:
        """τ_t: the time of the move as planned, or until its arrival was known if that is longer.

        The guard interval is for waking up and for the command: it does not count.
        """
        plan, commanded = self._plan, result.commanded
        if commanded is None:
            return plan.time_s(0.0)
        distance = abs(commanded - (before if result.origin is None else result.origin))
        due_s = start_s + self._timing.measure_begin_s(plan.time_s(distance))
        return plan.spent_s(distance, result.known_s - due_s)

    def _actuate(
        self, slot: int, start_s: float, deadline_s: float, wanted: float | None, result: Actuated
    ) -> None:
        guard = self._guard
        if not guard.is_standing:
            wanted = self._locate_again(wanted, deadline_s, result)
        elif wanted is None:
            wanted = self._rail.clamp(self.position)
        command = guard.command_for(self._rail.to_mm(wanted))
        if not guard.is_at(command):
            result.commanded = self._rail.to_wavelengths(command)
            self._move(slot, command, deadline_s, result)
        elif self._reported_s is not None and start_s < self._reported_s + _POLL_INTERVAL_S:
            return
        else:
            self._poll(command, deadline_s)
        self._reported_s = start_s

    def _locate_again(self, wanted: float | None, deadline_s: float, result: Actuated) -> float:
        """After a late arrival or a fault: find the stage; return what is in reach from there."""
        arrival = self._guard.locate(deadline_s)
        if not arrival.arrived:
            raise StillMovingError("the stage is still moving from an earlier slot")
        result.origin = found = self._rail.to_wavelengths(arrival.position_mm)
        if not self._guard.is_within_reach:
            raise StageError(
                f"the stage reports {arrival.position_mm:.3f} mm, off its rail",
                "home the stage, and check its travel in the config",
            )
        if wanted is None:
            return self._rail.clamp(found)
        if not 0 <= wanted <= self._rail.grid.length:
            return wanted  # the guard refuses it
        return self._rail.grid.advance(found, wanted, self._rho_max)

    def _move(self, slot: int, command: float, deadline_s: float, result: Actuated) -> None:
        clock, guard = self._clock, self._guard
        arrival = guard.move(command, min(deadline_s, clock.now() + LONG_WAIT_S))
        while not arrival.arrived and clock.now() < deadline_s:  # a long motion
            self._waiting.within_slot(min(deadline_s, clock.now() + _MOTION_POLL_S))
            if not self._waiting.keep_on():
                raise SlotGivenUpError
            arrival = guard.locate(deadline_s)
        if not arrival.arrived or arrival.time_s > deadline_s:
            self._late(slot, result, max(arrival.time_s - deadline_s, 0.0))
        elif not guard.is_close(command):
            raise StageError(
                f"the stage was sent to {command:.4f} mm and arrived at "
                f"{arrival.position_mm:.4f} mm"
            )

    def _poll(self, command: float, deadline_s: float) -> None:
        """Check that a stage without a command is still in its position."""
        arrival = self._guard.locate(deadline_s)
        if not arrival.arrived:
            raise StillMovingError("the stage moves without a command")
        if not self._guard.is_close(command):
            raise StageError(
                f"the stage was left at {command:.4f} mm and reports {arrival.position_mm:.4f} mm",
                "was it moved by hand, by a pendant or by another program?",
            )

    def _judge(self, slot: int, deadline_s: float, result: Actuated) -> None:
        """Count a success or a late arrival; a slot without a command proves neither."""
        moved, late_s = result.commanded is not None, result.known_s - deadline_s
        if moved and result.on_time and late_s > 0:
            self._late(slot, result, late_s)
        if result.on_time and moved:
            self._lateness.ended()
            self._patience.recovered(slot)
        elif result.on_time:
            self._lateness.paused()
            self._patience.answered(slot)

    def _late(self, slot: int, result: Actuated, late_s: float) -> None:
        result.on_time, result.invalid = False, InvalidReason.LATE_ARRIVAL
        self._report(slot, EventKind.LATE_ARRIVAL, "the stage was not in position by T_a", late_s)
        self._lateness.failed(
            fix="set physical.actuation_time_s higher, or check whether something blocks the "
            "carriage"
        )

    def _locate_antenna(self, result: Actuated) -> None:
        """Set where the antenna is, and whether it can be measured there."""
        reported = self._rail.to_wavelengths(self._guard.reported_mm)
        if not isnan(reported):
            self.position = reported
        result.position = self.position
        if result.invalid is None and self._rail.clamp(self.position) != self.position:
            result.invalid = InvalidReason.OFF_RAIL
        result.homings = self.recovery.homings - self._homings
        self._homings = self.recovery.homings

    def _report(self, slot: int, kind: EventKind, detail: str, value: float) -> None:
        self._recorder.submit(Event(slot, self._clock.now(), kind, detail, value))
