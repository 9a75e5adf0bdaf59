"""The protocol of a stage: it moves the antenna to a position and reports where it is.

Positions are in millimetres from the low end of the usable rail; a driver converts them to those of
its board. The guard in front of a stage enforces stroke and region, not the stage.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Protocol

from macontrol.config.model.errors import AUTHOR, StageError
from macontrol.config.model.motion import Trapezoid


@dataclass(frozen=True)
class StageDescription:
    """What a stage is and what it can do."""

    name: str
    """Which stage this is; one controller at a time may drive it."""
    travel_mm: float
    """The usable rail is [0, travel_mm]."""
    step_mm: float
    """One actuator step; 0 if any position is possible."""
    speed_mm_per_s: float
    acceleration_mm_per_s2: float
    """Infinite: the stage has its full speed immediately."""
    latency_s: float
    """From a command to the first step."""
    settling_s: float
    """From the last step until the antenna is at rest."""
    tolerance_mm: float = 1e-3
    """A stage that has arrived may be a step plus this far from its target."""

    def is_near(self, position_mm: float, other_mm: float) -> bool:
        """Whether two positions are the same within the accuracy of the stage."""
        return abs(position_mm - other_mm) <= self.step_mm + self.tolerance_mm

    @property
    def motion(self) -> Trapezoid:
        """How the stage moves, in millimetres, without latency and settling."""
        return Trapezoid(self.speed_mm_per_s, self.acceleration_mm_per_s2)


def require_plausible(about: StageDescription) -> None:
    """Raise StageError for a description with numbers that no stage has."""
    positive = (about.travel_mm, about.speed_mm_per_s)
    others = (about.step_mm, about.latency_s, about.settling_s, about.tolerance_mm)
    if not (
        all(0 < number < inf for number in positive)
        and all(0 <= number < inf for number in others)
        and about.acceleration_mm_per_s2 > 0
    ):
        raise StageError(f"no stage can be as it is described: {about}", AUTHOR)


@dataclass(frozen=True, slots=True)
class Arrival:
    """The result of a move, or its progress."""

    position_mm: float
    """The position that the stage reports."""
    arrived: bool
    """Whether it is at rest at its target."""
    time_s: float
    """The time of this result, on the clock."""


class Stage(Protocol):
    """A linear stage. Any method may raise StageError; none may exceed its deadline."""

    @property
    def description(self) -> StageDescription:
        """What the stage is and can do."""

    def move_to(self, position_mm: float, deadline_s: float) -> Arrival:
        """Move to a position (mm) and wait for the arrival, until the deadline at most.

        A move that is not over by then continues; `where` reports its progress.
        """

    def where(self, deadline_s: float) -> Arrival:
        """Measure the position (mm) now; `arrived` says whether the stage is at rest."""

    def stop(self) -> None:
        """Stop the motion now; the position stays known if possible."""

    @property
    def homing_is_due(self) -> bool:
        """Whether it is time to `recover` a working stage, because it may have lost steps."""

    def recover(self, deadline_s: float, keep_on: Callable[[], bool]) -> None:
        """Bring the stage to a known, freshly homed state, or raise StageError.

        This reconnects with back-off, clears an alarm, and homes if homing is permitted, so it
        takes long. `keep_on` is called several times per second: soon after it returns False the
        stage is at rest, and StageError is raised.
        """

    def close(self) -> None:
        """Stop, and release the hardware."""
