"""Check a config's rail, grid, stroke and slot against the connected stage.

The values that an error's fix suggests are accepted.
"""

from __future__ import annotations

from math import ceil, floor

from macontrol.config import Config
from macontrol.config.checks.contradictions import contradictions, fitting_spacing
from macontrol.config.checks.measuring import shortcoming
from macontrol.config.model.errors import ConfigError, SlotTooShortError, StageError
from macontrol.config.model.rounding import at_least, at_most, close_to
from macontrol.config.model.slot_timing import shortest_slot_s
from macontrol.hal import StageDescription
from macontrol.hal.serial.stage import SerialStage
from macontrol.hal.slot_plan import SlotPlan, plan_slot

# Every start measures the latency again, so a suggested T_a has this much to spare.
_SPARE_S = 2e-3


def check_stage(config: Config, stage: SerialStage) -> SlotPlan:
    """Check a plan against a connected stage; StageError if only the busy computer is too slow.

    A slot that fits the fastest answers of the board fits the board. Answer times that vary and do
    not settle say nothing about the board, and the next start may find a less busy computer.
    """
    try:
        return check_plan(config, stage.description)
    except SlotTooShortError:
        times, quickest = stage.answer_times, stage.quickest_description
        if times.is_stable and not _fits(config, quickest):
            raise
        usual_s, least_s = stage.description.latency_s, quickest.latency_s
        raise StageError(
            f"{stage.description.name}: a command takes {usual_s * 1e3:.1f} ms, "
            f"{least_s * 1e3:.1f} ms at best, and the slot is too short for the longer time: this "
            "computer is too busy to time the board",
            "end what loads it, and start again",
        ) from None


def latency_fix(config: Config, latency_s: float) -> str:
    """What to set for a measured latency; T_a too, if no time would be left to move."""
    physical, latency = config.physical, at_least(latency_s, 2)
    fix = f"set physical.command_latency_s to {latency}"
    slower = physical.model_copy(update={"command_latency_s": float(latency)})
    if contradictions(config.model_copy(update={"physical": slower})):
        longer_s = float(latency) - physical.command_latency_s
        fix += f" and {_with_slot(config, at_least(physical.actuation_time_s + longer_s, 4))}"
    return fix


def _fits(config: Config, stage: StageDescription) -> bool:
    try:
        check_plan(config, stage)
    except ConfigError:
        return False
    return True


def check_plan(config: Config, stage: StageDescription) -> SlotPlan:
    """Refuse a rail that is too short, coarse steps, and slots that stage or radio cannot keep."""
    _refuse_long_rail(config, stage)
    _refuse_coarse_steps(config, stage)
    if problem := shortcoming(config):
        raise problem.error()
    physical = config.physical
    plan = plan_slot(
        stage, actuation_time_s=physical.actuation_time_s, stroke_mm=physical.stroke_mm
    )
    if not plan.is_kept:
        raise _too_short(config, stage, plan)
    return plan


def _refuse_long_rail(config: Config, stage: StageDescription) -> None:
    physical, spacing = config.physical, config.algorithm.grid_spacing
    if config.rail_mm > stage.travel_mm + 1e-6:
        steps = floor(physical.to_wavelengths(stage.travel_mm) / spacing + 1e-9)
        fix = f"set physical.region_length to {close_to(steps * spacing)} or less"
        raise ConfigError(
            f"physical.region_length: {physical.region_length:g} wavelengths are "
            f"{config.rail_mm:.1f} mm, and the stage has {at_most(stage.travel_mm)} mm",
            fix if steps > 0 else "use a longer stage",
        )
    if config.stage.inverted and stage.travel_mm > config.rail_mm + physical.stroke_mm:
        step_mm = stage.step_mm or 1e-3
        travel_mm = ceil(config.rail_mm / step_mm - 1e-9) * step_mm
        raise ConfigError(
            f"stage.inverted: positions count towards the switch, so homing would leave the stage "
            f"at {stage.travel_mm:.1f} mm, out of reach of the region's {config.rail_mm:.1f} mm",
            f"set stage.travel_mm to {at_least(travel_mm, 9)}",
        )


def _refuse_coarse_steps(config: Config, stage: StageDescription) -> None:
    """Refuse steps longer than a stroke: the antenna would never move, without any error."""
    physical, stroke_mm = config.physical, config.physical.stroke_mm
    spacing_mm = physical.to_mm(config.algorithm.grid_spacing)
    begin = f"the stage moves by whole steps of {stage.step_mm:.4g} mm (is its resolution right?), "
    if stage.step_mm > stroke_mm * (1 + 1e-9):
        fix = "lengthen physical.actuation_time_s, or use a stage with finer steps"
        if physical.to_mm(physical.actuator_reach) > stage.step_mm:
            least = at_least(physical.to_wavelengths(stage.step_mm))
            fix = f"set physical.stroke to at least {least}"
        raise ConfigError(
            f"physical.stroke: {begin}and a stroke is {stroke_mm:.4g} mm, so nothing would ever "
            "move",
            fix,
        )
    if stage.step_mm > spacing_mm * (1 + 1e-9):
        steps = max(1, floor(config.rail_mm / stage.step_mm + 1e-9))
        fits = physical.region_length / steps
        fix = f"set algorithm.grid_spacing to {close_to(fits)}"
        if fitting_spacing(physical.region_length, fits, physical.rho_max) != fits:
            fix += f" and physical.stroke to at least {at_least(fits)}"
        raise ConfigError(
            f"algorithm.grid_spacing: {begin}and the grid is finer, {spacing_mm:.4g} mm, so its "
            "positions cannot be reached",
            fix,
        )


def _too_short(config: Config, stage: StageDescription, plan: SlotPlan) -> SlotTooShortError:
    """The error for a slot too short for the stroke.

    The suggested T_a keeps the stroke, and the suggested T_s the time to measure.
    """
    physical, stroke_mm = config.physical, config.physical.stroke_mm
    target = physical.rho_max if physical.stroke == "auto" else physical.stroke
    overhead_s = plan.overhead_s + _SPARE_S
    actuation_s = at_least(overhead_s + stage.motion.time_s(physical.to_mm(target)), 3)
    fix = f"set {_with_slot(config, actuation_s)}"
    if physical.stroke == "auto":  # or it grows with T_a
        fix += f" and physical.stroke to at most {at_most(physical.rho_max)}"
    covered = physical.to_wavelengths(stage.motion.reach(physical.actuation_time_s - overhead_s))
    if covered >= config.algorithm.grid_spacing * 1.01:
        fix += f", or physical.stroke to at most {at_most(covered, 3)}"
    return SlotTooShortError(
        f"physical.actuation_time_s: in T_a = {physical.actuation_time_s:g} s the stage "
        f"{stage.name} covers {plan.stroke_mm:.4g} mm, less than the stroke of {stroke_mm:.4g} mm: "
        f"its commands take {stage.latency_s * 1e3:.3g} ms, settling "
        f"{stage.settling_s * 1e3:.3g} ms, the motion "
        f"{stage.motion.time_s(stroke_mm) * 1e3:.3g} ms at {stage.speed_mm_per_s:g} mm/s and "
        f"{stage.acceleration_mm_per_s2:g} mm/s²",
        fix,
    )


def _with_slot(config: Config, actuation_s: str) -> str:
    """A longer T_a, and the T_s that keeps the time to measure."""
    physical = config.physical
    longer_s = shortest_slot_s(
        max(float(actuation_s) - physical.actuation_time_s, 0.0),
        guard_share=config.timing.guard_share,
        decision_share=config.timing.decision_share,
    )
    return (
        f"physical.actuation_time_s to at least {actuation_s} and "
        f"physical.slot_duration_s to at least {at_least(physical.slot_duration_s + longer_s, 3)}"
    )
