"""The last gate before the motor: no command beyond the stroke or the region passes it.

Every motion goes through the guard. It compares each command with the position that the stage
*reports*, not with an assumed one, and sends whole actuator steps. It does not clip or correct a
command that it refuses: the stage stays where it is.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, floor, isfinite

from macontrol.config import Config
from macontrol.config.model.errors import STAGE_CODE, CommandRefusedError, StageError
from macontrol.hal import Arrival, Stage

ROUNDING_MM = 1e-6
"""A command may exceed a limit by this rounding error of conversions, and is reduced to the limit.
"""


class Guard:
    """Moves a stage within its region, by at most one stroke. Positions in millimetres."""

    def __init__(self, stage: Stage, *, region_mm: float, stroke_mm: float) -> None:
        if not 0 < stroke_mm < float("inf"):
            raise ValueError(f"a stroke of {stroke_mm!r} mm is not positive and finite")
        with STAGE_CODE:
            travel, step = stage.description.travel_mm, stage.description.step_mm
            if not 0 <= step < float("inf"):
                raise StageError(f"the stage describes a step of {step!r} mm")
        if not 0 < region_mm <= travel + ROUNDING_MM:
            raise ValueError(f"a region of {region_mm!r} mm does not fit a rail of {travel:g} mm")
        self._stage = stage
        self._region_mm = min(region_mm, travel)
        self._stroke_mm = stroke_mm
        self._step_mm = step
        self._standing = False
        self._reported_mm = float("nan")

    @classmethod
    def of(cls, config: Config, stage: Stage) -> Guard:
        """The guard with the region and the stroke of a config."""
        return cls(stage, region_mm=config.rail_mm, stroke_mm=config.physical.stroke_mm)

    @property
    def reported_mm(self) -> float:
        """Get the position that the stage last reported (mm); NaN before its first report."""
        return self._reported_mm

    @property
    def is_standing(self) -> bool:
        """Get whether the stage stood still at its last report."""
        return self._standing

    @property
    def is_within_reach(self) -> bool:
        """Get whether some position of the region is within a stroke of the stage."""
        reported, stroke = self._reported_mm, self._stroke_mm
        return -stroke <= reported <= self._region_mm + stroke

    @property
    def stroke_mm(self) -> float:
        """Get the longest move that passes (mm)."""
        return self._stroke_mm

    @property
    def step_mm(self) -> float:
        """Get one actuator step (mm); 0 if every position is possible."""
        return self._step_mm

    def is_at(self, command_mm: float) -> bool:
        """Whether the stage is already there, to the nearest actuator step."""
        return abs(command_mm - self._reported_mm) <= max(ROUNDING_MM, 0.5 * self._step_mm)

    def is_close(self, command_mm: float) -> bool:
        """Whether the stage arrived where it was sent, within its own tolerance."""
        with STAGE_CODE:
            return self._stage.description.is_near(command_mm, self._reported_mm)

    def doubt(self) -> None:
        """Require a new report of the position before the next motion."""
        self._standing = False

    def locate(self, deadline_s: float) -> Arrival:
        """Ask the stage where it is and whether it stands still."""
        self._standing = False
        with STAGE_CODE:
            return self._accept(self._stage.where(deadline_s))

    def command_for(self, wanted_mm: float) -> float:
        """The command (mm, whole steps) for a wanted position, or CommandRefusedError."""
        reported, region, stroke = self._reported_mm, self._region_mm, self._stroke_mm
        if not isfinite(wanted_mm):
            raise CommandRefusedError(f"the position {wanted_mm!r} is not a number")
        if not self._standing or not isfinite(reported):
            raise CommandRefusedError("the stage is not known to stand still")
        if not -ROUNDING_MM <= wanted_mm <= region + ROUNDING_MM:
            raise CommandRefusedError(f"{wanted_mm:.6f} mm is off the region [0, {region:.6f}]")
        if abs(wanted_mm - reported) > stroke + ROUNDING_MM:
            raise CommandRefusedError(
                f"from {reported:.6f} mm to {wanted_mm:.6f} mm is more than a stroke of "
                f"{stroke:.6f} mm"
            )
        low, high = max(0.0, reported - stroke), min(region, reported + stroke)
        if low > high:
            raise CommandRefusedError(f"the region is out of reach from {reported:.6f} mm")
        command = min(max(wanted_mm, low), high)
        if self._step_mm > 0:
            command = self._whole_steps(command, low, high)
        return command

    def move(self, wanted_mm: float, deadline_s: float) -> Arrival:
        """Send the stage to a position and wait for it, at most until the deadline."""
        command = self.command_for(wanted_mm)
        self._standing = False
        with STAGE_CODE:
            return self._accept(self._stage.move_to(command, deadline_s))

    @property
    def homing_is_due(self) -> bool:
        """Get whether a stage that works and stands still should be homed again."""
        if not self._standing:
            return False
        with STAGE_CODE:
            return bool(self._stage.homing_is_due)

    def recover(self, deadline_s: float, keep_on: Callable[[], bool]) -> None:
        """Bring the stage to a known position; it must report it before the next motion."""
        self._standing = False
        with STAGE_CODE:
            self._stage.recover(deadline_s, keep_on)

    def stop(self) -> None:
        """Stop the stage where it is."""
        self._standing = False
        with STAGE_CODE:
            self._stage.stop()

    def _whole_steps(self, command: float, low: float, high: float) -> float:
        """The multiple of a step that is nearest to a command and within the limits."""
        first, last = ceil(low / self._step_mm - 1e-9), floor(high / self._step_mm + 1e-9)
        if first > last:
            raise CommandRefusedError("no whole actuator step is within reach")
        steps = min(max(round(command / self._step_mm), first), last)
        return min(max(steps * self._step_mm, low), high)

    def _accept(self, arrival: Arrival) -> Arrival:
        """Store what the stage reports, if it is plausible."""
        position, travel = float(arrival.position_mm), self._stage.description.travel_mm
        arrival = Arrival(position, bool(arrival.arrived), float(arrival.time_s))
        if not -travel <= position <= 2 * travel:  # false for NaN too
            self._reported_mm = float("nan")
            raise StageError(f"the stage reports {position!r} mm, far off its rail")
        self._reported_mm = position
        self._standing = arrival.arrived
        return arrival
