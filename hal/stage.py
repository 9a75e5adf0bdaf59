"""What a stage is: it takes the antenna to a position and says where it is.

Positions are in millimetres from the low end of the usable rail; what a board calls them is its
driver's business. A stage enforces nothing: the guard before it does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from macontrol.config.model.motion import Trapezoid

LONGEST_HOMING_S = 1800.0
"""A homing that may take longer than this is a mistake in the settings, unless it is asked for."""


@dataclass(frozen=True)
class StageDescription:
    """What a stage is and what it can do."""

    name: str
    """Which stage this is; one controller at a time may drive it."""
    travel_mm: float
    """The usable rail is [0, travel_mm]."""
    step_mm: float
    """One actuator step; 0 if any position can be taken."""
    speed_mm_per_s: float
    acceleration_mm_per_s2: float
    """Infinite if full speed is had at once."""
    latency_s: float
    """From a command to the first step."""
    settling_s: float
    """From the last step until the antenna stands still."""
    tolerance_mm: float = 1e-3
    """A stage that has arrived may stand a step and this much beside where it was sent."""

    def is_near(self, position_mm: float, other_mm: float) -> bool:
        """Whether two positions are one place, to what the stage can keep and tell."""
        return abs(position_mm - other_mm) <= self.step_mm + self.tolerance_mm

    @property
    def motion(self) -> Trapezoid:
        """How the stage moves, in millimetres."""
        return Trapezoid(self.speed_mm_per_s, self.acceleration_mm_per_s2)

    def motion_time_s(self, distance_mm: float) -> float:
        """The duration of a motion, without latency and settling."""
        return self.motion.time_s(distance_mm)

    def reach_mm(self, motion_s: float) -> float:
        """The longest motion in this time, without latency and settling."""
        return self.motion.reach(motion_s)


@dataclass(frozen=True, slots=True)
class Arrival:
    """How a move ended, or how far it has come."""

    position_mm: float
    """Where the stage says it is."""
    arrived: bool
    """Whether it stands still where it was sent."""
    time_s: float
    """When that was known, on the clock."""


class Stage(Protocol):
    """A linear stage. Any method may raise StageError; none may wait past its deadline."""

    @property
    def description(self) -> StageDescription:
        """Get what the stage is and can do."""
        ...

    def move_to(self, position_mm: float, deadline_s: float) -> Arrival:
        """Move to a position (mm) and wait for the arrival, at the longest until the deadline.

        A move that is not over by then goes on; `where` tells how it went.
        """
        ...

    def where(self, deadline_s: float) -> Arrival:
        """Measure the position (mm) now; `arrived` says whether the stage stands still."""
        ...

    def stop(self) -> None:
        """Stop the motion at once, keeping the position if that is possible."""
        ...

    @property
    def homing_is_due(self) -> bool:
        """Get whether it is time to `recover` a stage that works, for steps it may have lost."""
        ...

    def recover(self, deadline_s: float, keep_on: Callable[[], bool]) -> None:
        """Bring the stage to a known, freshly homed state, or raise StageError.

        Reconnects with back-off, clears an alarm, and homes if homing is allowed; which takes
        long. `keep_on` is asked several times a second: the stage stands still, and StageError is
        raised, soon after it says no.
        """
        ...

    def close(self) -> None:
        """Stop, and let go of the hardware."""
        ...
