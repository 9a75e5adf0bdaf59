"""The simulated actuator: where it is at any moment after a command.

A command takes effect after a latency; the motion is trapezoidal, with an acceleration and a top
speed; the antenna stands still a settling time after the last step. Positions are whole steps
where the actuator has steps. An ideal actuator has neither latency, acceleration nor steps.
"""

from __future__ import annotations

from math import copysign, inf

from macontrol.config.sections.physical import Physical
from macontrol.hal import StageDescription


def describe(physical: Physical, name: str) -> StageDescription:
    """The description of a stage that has just the rail and the actuator of a config."""
    acceleration, step = physical.acceleration_m_per_s2, physical.step_mm
    return StageDescription(
        name=name,
        travel_mm=physical.region_length * physical.wavelength_mm,
        step_mm=0.0 if step == "ideal" else step,
        speed_mm_per_s=physical.actuator_speed_m_per_s * 1e3,
        acceleration_mm_per_s2=inf if acceleration == "ideal" else acceleration * 1e3,
        latency_s=physical.command_latency_s,
        settling_s=physical.settling_s,
    )


class Actuator:
    """One axis of motion. Positions in millimetres, times in seconds on any one clock."""

    def __init__(self, description: StageDescription, position_mm: float) -> None:
        self._description = description
        self._from = self._to = self._whole_steps(position_mm)
        self._begun = -inf
        self._moving_s = 0.0

    def command(self, position_mm: float, now: float) -> None:
        """Set out for a position; a motion under way is broken off where it is."""
        self._from = self.position_at(now)
        self._to = self._whole_steps(position_mm)
        self._begun = now + self._description.latency_s
        self._moving_s = self._description.motion_time_s(abs(self._to - self._from))

    def stop(self, now: float) -> None:
        """Stand still where the motion is at this moment."""
        self._from = self._to = self._whole_steps(self.position_at(now))
        self._begun, self._moving_s = -inf, 0.0

    @property
    def still_at(self) -> float:
        """The moment from which the antenna stands still."""
        settling = self._description.settling_s if self._moving_s > 0 else 0.0
        return self._begun + self._moving_s + settling

    def position_at(self, now: float) -> float:
        """Where the actuator is at a moment (mm)."""
        elapsed = now - self._begun
        if elapsed <= 0:
            return self._from
        if elapsed >= self._moving_s:
            return self._to
        covered = distance_covered(
            elapsed, abs(self._to - self._from), self._moving_s, self._description
        )
        return self._from + copysign(covered, self._to - self._from)

    def _whole_steps(self, position_mm: float) -> float:
        step = self._description.step_mm
        return position_mm if step == 0 else round(position_mm / step) * step


def distance_covered(
    elapsed_s: float, distance_mm: float, moving_s: float, stage: StageDescription
) -> float:
    """How far a motion has come some time after its first step."""
    speed, acceleration = stage.speed_mm_per_s, stage.acceleration_mm_per_s2
    if acceleration == inf:
        return speed * elapsed_s
    ramp_s = min(speed / acceleration, moving_s / 2)
    if elapsed_s <= ramp_s:
        return acceleration * elapsed_s**2 / 2
    if elapsed_s <= moving_s - ramp_s:
        return acceleration * ramp_s * (elapsed_s - ramp_s / 2)
    return distance_mm - acceleration * (moving_s - elapsed_s) ** 2 / 2
