"""Values of different sections that cannot both hold, each with a fix.

A line is `key: reason; fix`. Where a fix is a number, it is written as `KEY to at most N`,
`KEY to at least N` or `KEY to N`, and N is accepted when typed in.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import TYPE_CHECKING

from macontrol.config.checks.rf_plan import plan_contradictions
from macontrol.config.model.rounding import at_most, close_to

if TYPE_CHECKING:
    from macontrol.config.schema import Config

MAX_GRID_POINTS = 100_001
# A limit that must not be reached is suggested with this much room.
_ROOM = 0.99


def contradictions(config: Config) -> list[str]:
    """Every contradiction of a config."""
    return [
        *_in_the_slot(config),
        *_on_the_grid(config),
        *_of_the_actuator(config),
        *_in_the_kernel(config),
        *_in_the_world(config),
        *plan_contradictions(config.physical.carrier_frequency_hz, config.probe),
    ]


def fitting_spacing(length: float, spacing: float, longest: float) -> float | None:
    """The spacing nearest to the given one, not above `longest`, that divides a rail evenly."""
    steps = max(1, round(length / spacing))
    if length / steps > longest:
        if longest <= 0 or length / longest > MAX_GRID_POINTS - 1:
            return None
        steps = ceil(length / longest - 1e-9)
    return length / steps


def _in_the_slot(config: Config) -> Iterator[str]:
    physical, timing = config.physical, config.timing
    actuation = physical.actuation_time_s / physical.slot_duration_s
    kept_free = timing.guard_share + timing.decision_share
    if kept_free >= 1:
        most = at_most(_ROOM * (1 - timing.guard_share), 3)
        yield (
            f"timing.decision_share: with timing.guard_share it keeps {kept_free:g} of the slot "
            f"free, which is all of it; set timing.decision_share to at most {most}"
        )
    elif actuation >= 1:
        most = at_most(_ROOM * physical.slot_duration_s * (1 - kept_free), 3)
        yield (
            f"physical.actuation_time_s: T_a = {physical.actuation_time_s:g} s leaves nothing of "
            f"the slot T_s = {physical.slot_duration_s:g} s to transmit in; "
            f"set physical.actuation_time_s to at most {most}"
        )
    elif actuation + kept_free >= 1:
        left = 1 - actuation - timing.guard_share
        fix = "lower them"
        if left > 0:
            fix = f"set timing.decision_share to at most {at_most(_ROOM * left, 3)}"
        yield (
            f"timing.decision_share: with timing.guard_share it keeps {kept_free:g} of the slot "
            f"free, and T_a leaves only {1 - actuation:.3g} to measure in; {fix}"
        )


def _on_the_grid(config: Config) -> Iterator[str]:
    physical, algorithm = config.physical, config.algorithm
    length, spacing, rho_max = physical.region_length, algorithm.grid_spacing, physical.rho_max
    steps = length / spacing
    if steps > MAX_GRID_POINTS - 0.5:
        yield (
            f"algorithm.grid_spacing: physical.region_length = {length:g} makes {steps:.0f} grid "
            f"steps, more than {MAX_GRID_POINTS - 1}; "
            f"set algorithm.grid_spacing to {close_to(length / (MAX_GRID_POINTS - 1))} or more"
        )
        return
    fits = fitting_spacing(length, spacing, rho_max)
    if abs(steps - max(1, round(steps))) > 1e-6:
        whole = length / max(1, round(steps)) if fits is None else fits
        yield (
            f"algorithm.grid_spacing: {spacing:g} does not divide the rail of {length:g} into "
            f"whole steps; set algorithm.grid_spacing to {close_to(whole)}"
        )
    elif config.survey.samples > config.grid_size:
        yield (
            f"survey.samples: {config.survey.samples} samples for {config.grid_size} grid "
            f"positions; set survey.samples to at most {config.grid_size}"
        )
    if rho_max < spacing * (1 - 1e-9):
        fix = "lengthen the stroke"
        if fits is not None:
            fix = f"set algorithm.grid_spacing to {close_to(fits)} or less, or {fix}"
        yield (
            f"physical.stroke: {rho_max:.6g} is below one grid step of {spacing:g}, so no other "
            f"grid position is in reach; {fix}"
        )
    elif algorithm.policy == "sweep-and-hold" and algorithm.sweep_period <= config.traversal_slots:
        yield (
            f"algorithm.sweep_period: a period of {algorithm.sweep_period} slots is over before a "
            f"sweep of the rail's {config.traversal_slots} strokes is, so nothing is ever held; "
            f"set algorithm.sweep_period to at least {config.traversal_slots + 1}"
        )


def _of_the_actuator(config: Config) -> Iterator[str]:
    physical = config.physical
    stroke_mm = physical.rho_max * physical.wavelength_mm
    if physical.step_mm != "ideal" and physical.step_mm > stroke_mm:
        fix = "lengthen the stroke"
        if stroke_mm > 0:
            fix = f"set physical.step_mm to at most {at_most(stroke_mm)}, or {fix}"
        yield (
            f"physical.step_mm: one actuator step of {physical.step_mm:g} mm is longer than the "
            f"stroke of {stroke_mm:.4g} mm, so nothing could ever move; {fix}"
        )
    if physical.stroke != "auto" and physical.stroke > physical.nominal_reach * (1 + 1e-9):
        yield (
            f"physical.stroke: {physical.stroke:g} is more than the actuator covers in T_a "
            f"(v·T_a = {physical.nominal_reach:.6g}); set physical.stroke to at most "
            f'{at_most(physical.nominal_reach)}, or to "auto"'
        )
    if physical.x_0 > physical.region_length:
        length = at_most(physical.region_length)
        yield (
            f"physical.initial_position: {physical.x_0:g} lies off the rail [0, {length}]; "
            f"set physical.initial_position to at most {length}"
        )


def _in_the_kernel(config: Config) -> Iterator[str]:
    kernel = config.kernel
    if kernel.fringe_periods != "auto" and len(kernel.fringe_periods) != kernel.components:
        yield (
            f"kernel.fringe_periods: {len(kernel.fringe_periods)} periods for "
            f"kernel.components = {kernel.components}; "
            f'give {kernel.components} periods, or "auto"'
        )
    weights = kernel.constant_weight + kernel.residual_weight
    if weights > 1 + 1e-12:
        yield (
            f"kernel.constant_weight: with kernel.residual_weight it makes {weights:g} of the "
            "variance; together they may make at most 1"
        )
    elif kernel.components == 0 and abs(weights - 1) > 1e-12:
        yield (
            f"kernel.components: without fringes, kernel.constant_weight and "
            f"kernel.residual_weight must make 1 together, not {weights:g}"
        )
    for name, sector in (("kernel", kernel.sector_deg), ("channel", config.channel.sector_deg)):
        if not 0 <= sector[0] < sector[1] <= 180:
            yield (
                f"{name}.sector_deg: [{sector[0]:g}, {sector[1]:g}] is not an angular sector; "
                "give two angles that rise, within [0, 180]"
            )
    if kernel.fringe_periods == "auto" and kernel.sector_deg[1] - kernel.sector_deg[0] < 1:
        yield (
            f"kernel.sector_deg: {kernel.sector_deg[1] - kernel.sector_deg[0]:g} degrees are too "
            "narrow a sector to derive fringes from; make it at least 1, or give the "
            "kernel.fringe_periods"
        )


def _in_the_world(config: Config) -> Iterator[str]:
    length, horizon = config.physical.region_length, config.run.horizon
    if config.shadow_extent > length:
        yield (
            f"channel.shadow_extent: {config.shadow_extent:g} is longer than the rail; "
            f"set channel.shadow_extent to at most {at_most(length)}"
        )
    if config.change_points >= horizon and config.drift.model == "piecewise":
        yield (
            f"drift.change_points: {config.change_points} change points do not fit into "
            f"{horizon} slots; set drift.change_points to at most {horizon - 1}"
        )
