"""What a stage can do within a slot, and the smallest slot that leaves it enough time.

A move costs its command latency, the motion itself (trapezoidal, or triangular if it is too short
to reach full speed) and the settling. Whatever of T_a is left for the motion makes the stroke.
"""

from __future__ import annotations

from dataclasses import dataclass

from macontrol.hal.stage import StageDescription


@dataclass(frozen=True, slots=True)
class SlotPlan:
    """What a stage makes of a slot."""

    stroke_mm: float
    """The longest move that is over, and settled, within T_a."""
    overhead_s: float
    """What every move costs beside its motion."""
    smallest_actuation_s: float
    """The least T_a in which the stage covers the stroke that is asked for."""
    is_kept: bool
    """Whether T_a is long enough for the stroke that is asked for."""


def plan_slot(stage: StageDescription, *, actuation_time_s: float, stroke_mm: float) -> SlotPlan:
    """The stroke that follows from T_a, and the T_a that a stroke needs."""
    overhead = stage.latency_s + stage.settling_s
    effective = stage.reach_mm(actuation_time_s - overhead)
    needed = overhead + stage.motion_time_s(stroke_mm)
    # A hair of rounding must not refuse a plan that was derived from the very same numbers.
    is_kept = effective >= stroke_mm * (1 - 1e-9)
    return SlotPlan(min(effective, stage.travel_mm), overhead, needed, is_kept)
