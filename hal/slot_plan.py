"""What a stage can do within a slot, and the smallest slot that leaves it enough time.

A move costs its command latency, the motion itself (trapezoidal, or triangular if it is too short
to reach full speed) and the settling. Whatever of T_a is left for the motion makes the stroke.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from macontrol.config.errors import ConfigError
from macontrol.hal.stage import StageDescription


@dataclass(frozen=True, slots=True)
class SlotPlan:
    """A slot that the stage can keep."""

    stroke_mm: float
    """The longest move that is over, and settled, within T_a."""
    overhead_s: float
    """What every move costs beside its motion."""
    smallest_actuation_s: float
    """The least T_a in which the stage covers the stroke that was asked for."""


def plan_slot(
    stage: StageDescription,
    *,
    actuation_time_s: float,
    slot_duration_s: float,
    stroke_mm: float,
) -> SlotPlan:
    """The stroke that follows from T_a; ConfigError if it is shorter than the one asked for.

    The error names the smallest T_a that would do, and the smallest T_s that leaves the link as
    long to transmit as the plan that was refused.
    """
    overhead = stage.latency_s + stage.settling_s
    effective = stage.reach_mm(actuation_time_s - overhead)
    needed = overhead + stage.motion_time_s(stroke_mm)
    # A hair of rounding must not refuse a plan that was derived from the very same numbers.
    if effective >= stroke_mm * (1 - 1e-9):
        return SlotPlan(min(effective, stage.travel_mm), overhead, needed)
    slot = needed + max(slot_duration_s - actuation_time_s, 0.0)
    raise ConfigError(
        f"physical.actuation_time_s: in T_a = {actuation_time_s:g} s the stage {stage.name} "
        f"covers {effective:.4g} mm, and a stroke of {stroke_mm:.4g} mm is asked for: its commands "
        f"take {stage.latency_s * 1e3:.3g} ms, settling {stage.settling_s * 1e3:.3g} ms, the "
        f"motion {stage.motion_time_s(stroke_mm) * 1e3:.3g} ms at "
        f"{stage.speed_mm_per_s:g} mm/s and {stage.acceleration_mm_per_s2:g} mm/s²; set "
        f"physical.actuation_time_s to at least {_rounded_up(needed):g} and "
        f"physical.slot_duration_s to at least {_rounded_up(slot):g}, or shorten the stroke"
    )


def _rounded_up(seconds: float) -> float:
    """To the next tenth of a millisecond, so that the number in a message is one that works."""
    return ceil(seconds * 1e4) / 1e4
