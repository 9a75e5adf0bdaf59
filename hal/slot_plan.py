"""The stroke that a stage can cover within T_a, and the shortest T_a for a stroke.

A move takes the command latency, the motion itself and the settling. The time that T_a leaves for
the motion determines the stroke.
"""

from __future__ import annotations

from dataclasses import dataclass

from macontrol.hal.stage import StageDescription


@dataclass(frozen=True, slots=True)
class SlotPlan:
    """What a stage can do within a slot."""

    stroke_mm: float
    """The longest move that is over and settled within T_a."""
    overhead_s: float
    """The time of a move without its motion."""
    smallest_actuation_s: float
    """The shortest T_a in which the stage covers the required stroke."""
    is_kept: bool
    """Whether T_a is long enough for the required stroke."""


def plan_slot(stage: StageDescription, *, actuation_time_s: float, stroke_mm: float) -> SlotPlan:
    """Compute the stroke that follows from T_a, and the T_a that a stroke requires."""
    overhead = stage.latency_s + stage.settling_s
    effective = stage.motion.reach(actuation_time_s - overhead)
    needed = overhead + stage.motion.time_s(stroke_mm)
    # A rounding error must not refuse a plan that was derived from the same numbers.
    is_kept = effective >= stroke_mm * (1 - 1e-9)
    return SlotPlan(min(effective, stage.travel_mm), overhead, needed, is_kept)
