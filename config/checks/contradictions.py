"""Values of different sections that contradict each other, each with a fix.

Where a fix is a number, it is written as `KEY to at most N`, `KEY to at least N` or `KEY to N`,
and N is accepted when typed in.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import TYPE_CHECKING

from macontrol.config.checks.rf_plan import plan_contradictions
from macontrol.config.model.errors import Problem
from macontrol.config.model.rounding import at_most, close_to
from macontrol.config.policies import POLICIES

if TYPE_CHECKING:
    from macontrol.config.schema import Config

MAX_GRID_POINTS = 100_001
# A limit that must not be reached is suggested with this much room.
_ROOM = 0.99


def contradictions(config: Config) -> list[Problem]:
    """Every contradiction of a config."""
    return [
        *_in_the_slot(config),
        *_on_the_grid(config),
        *_of_the_sweep(config),
        *_of_the_actuator(config),
        *_in_the_kernel(config),
        *_in_the_sectors(config),
        *_in_the_world(config),
        *plan_contradictions(config.physical.carrier_frequency_hz, config.probe),
        *_of_the_transmitter(config),
        *_of_the_reference(config),
    ]


def fitting_spacing(length: float, spacing: float, longest: float) -> float | None:
    """The spacing nearest to the given one, not above `longest`, that divides a rail evenly."""
    steps = max(1, round(length / spacing))
    if length / steps > longest:
        if longest <= 0 or length / longest > MAX_GRID_POINTS - 1:
            return None
        steps = ceil(length / longest - 1e-9)
    return length / steps


def _of_the_transmitter(config: Config) -> Iterator[Problem]:
    tx = config.tx
    if bool(tx.on_command) != bool(tx.off_command):
        missing, there = ("off", "on") if tx.on_command else ("on", "off")
        yield Problem(
            f"tx.{missing}_command",
            f"it is empty, and tx.{there}_command is not: both are needed to measure a noise floor",
            "set both, or neither",
        )
    elif tx.floor_every_s != "off" and not tx.is_switchable:
        yield Problem(
            "tx.floor_every_s",
            "no command can switch the transmitter off and on",
            'set tx.on_command and tx.off_command, or set it to "off"',
        )


def _of_the_reference(config: Config) -> Iterator[Problem]:
    """The reference receiver cannot be the probe itself, as far as their own keys show that."""
    reference, probe = config.reference_probe, config.probe
    own = sorted(type(probe).own_keys())
    if type(reference) is not type(probe) or not own:
        return
    if all(getattr(reference, key) == getattr(probe, key) for key in own):
        yield Problem(
            f"reference.{probe.driver_name()}.{own[0]}",
            "the reference receiver is the same device as [probe]",
            f"give it another one in [reference.{probe.driver_name()}], or set reference.driver "
            'to "off"',
        )


def _in_the_slot(config: Config) -> Iterator[Problem]:
    physical, timing = config.physical, config.timing
    actuation = physical.actuation_time_s / physical.slot_duration_s
    kept_free = timing.guard_share + timing.decision_share
    if kept_free >= 1:
        most = at_most(_ROOM * (1 - timing.guard_share), 3)
        yield Problem(
            "timing.decision_share",
            f"with timing.guard_share it keeps {kept_free:g} of the slot free, which is all of it",
            f"set timing.decision_share to at most {most}",
        )
    elif actuation >= 1:
        most = at_most(_ROOM * physical.slot_duration_s * (1 - kept_free), 3)
        yield Problem(
            "physical.actuation_time_s",
            f"T_a = {physical.actuation_time_s:g} s leaves nothing of the slot "
            f"T_s = {physical.slot_duration_s:g} s to transmit in",
            f"set physical.actuation_time_s to at most {most}",
        )
    elif actuation + kept_free >= 1:
        left = 1 - actuation - timing.guard_share
        fix = "lower them"
        if left > 0:
            fix = f"set timing.decision_share to at most {at_most(_ROOM * left, 3)}"
        yield Problem(
            "timing.decision_share",
            f"with timing.guard_share it keeps {kept_free:g} of the slot free, and T_a leaves only "
            f"{1 - actuation:.3g} to measure in",
            fix,
        )


def _too_fine(config: Config) -> bool:
    """Whether the grid has more positions than can be handled."""
    return config.physical.region_length / config.algorithm.grid_spacing > MAX_GRID_POINTS - 0.5


def _on_the_grid(config: Config) -> Iterator[Problem]:
    physical, spacing = config.physical, config.algorithm.grid_spacing
    length, rho_max = physical.region_length, physical.rho_max
    steps = length / spacing
    if _too_fine(config):
        yield Problem(
            "algorithm.grid_spacing",
            f"physical.region_length = {length:g} makes {steps:.0f} grid steps, more than "
            f"{MAX_GRID_POINTS - 1}",
            f"set algorithm.grid_spacing to {close_to(length / (MAX_GRID_POINTS - 1))} or more",
        )
        return
    fits = fitting_spacing(length, spacing, rho_max)
    if abs(steps - max(1, round(steps))) > 1e-6:
        whole = length / max(1, round(steps)) if fits is None else fits
        yield Problem(
            "algorithm.grid_spacing",
            f"{spacing:g} does not divide physical.region_length = {length:g} into whole steps",
            f"set algorithm.grid_spacing to {close_to(whole)}",
        )
    elif config.survey.samples > config.grid_size:
        yield Problem(
            "survey.samples",
            f"{config.survey.samples} samples for {config.grid_size} grid positions",
            f"set survey.samples to at most {config.grid_size}",
        )
    if rho_max < spacing * (1 - 1e-9):
        fix = "lengthen the stroke"
        if fits is not None:
            fix = f"set algorithm.grid_spacing to {close_to(fits)} or less, or {fix}"
        yield Problem(
            "physical.stroke",
            f"{rho_max:.6g} is below one grid step of {spacing:g}, so no other grid position is in "
            "reach",
            fix,
        )


def _of_the_sweep(config: Config) -> Iterator[Problem]:
    algorithm, rho_max = config.algorithm, config.physical.rho_max
    uses = POLICIES[algorithm.policy].uses or ()
    if "algorithm.sweep_period" not in uses or _too_fine(config):
        return
    if rho_max < algorithm.grid_spacing * (1 - 1e-9):
        return  # no stroke, no sweep
    if algorithm.sweep_period <= config.traversal_slots:
        yield Problem(
            "algorithm.sweep_period",
            f"a period of {algorithm.sweep_period} slots is over before a sweep of the rail's "
            f"{config.traversal_slots} strokes is, so nothing is ever held",
            f"set algorithm.sweep_period to at least {config.traversal_slots + 1}",
        )


def _of_the_actuator(config: Config) -> Iterator[Problem]:
    physical = config.physical
    stroke_mm = physical.stroke_mm
    if physical.step_mm != "ideal" and physical.step_mm > stroke_mm:
        fix = "lengthen the stroke"
        if stroke_mm > 0:
            fix = f"set physical.step_mm to at most {at_most(stroke_mm)}, or {fix}"
        yield Problem(
            "physical.step_mm",
            f"one actuator step of {physical.step_mm:g} mm is longer than the stroke of "
            f"{stroke_mm:.4g} mm, so nothing could ever move",
            fix,
        )
    if physical.stroke != "auto" and physical.stroke > physical.nominal_reach * (1 + 1e-9):
        yield Problem(
            "physical.stroke",
            f"{physical.stroke:g} is more than the actuator covers in T_a "
            f"(v·T_a = {physical.nominal_reach:.6g})",
            f'set physical.stroke to at most {at_most(physical.nominal_reach)}, or to "auto"',
        )
    if physical.x_0 > physical.region_length:
        length = at_most(physical.region_length)
        yield Problem(
            "physical.initial_position",
            f"{physical.x_0:g} is off the rail [0, {length}]",
            f"set physical.initial_position to at most {length}",
        )


def _in_the_kernel(config: Config) -> Iterator[Problem]:
    kernel = config.kernel
    if kernel.fringe_periods != "auto" and len(kernel.fringe_periods) != kernel.components:
        yield Problem(
            "kernel.fringe_periods",
            f"{len(kernel.fringe_periods)} periods for kernel.components = {kernel.components}",
            f'give {kernel.components} periods, or "auto"',
        )
    weights = kernel.constant_weight + kernel.residual_weight
    if weights > 1 + 1e-12:
        yield Problem(
            "kernel.constant_weight",
            f"with kernel.residual_weight it makes {weights:g} of the variance",
            "together they may make at most 1",
        )
    elif kernel.components == 0 and abs(weights - 1) > 1e-12:
        yield Problem(
            "kernel.components",
            "without fringes, kernel.constant_weight and kernel.residual_weight make "
            f"{weights:g} of the variance",
            "together they must make 1",
        )


def _in_the_sectors(config: Config) -> Iterator[Problem]:
    kernel = config.kernel
    for name, sector in (("kernel", kernel.sector_deg), ("channel", config.channel.sector_deg)):
        if not 0 <= sector[0] < sector[1] <= 180:
            yield Problem(
                f"{name}.sector_deg",
                f"[{sector[0]:g}, {sector[1]:g}] is not an angular sector",
                "give two angles that rise, within [0, 180]",
            )
    if kernel.fringe_periods == "auto" and kernel.sector_deg[1] - kernel.sector_deg[0] < 1:
        yield Problem(
            "kernel.sector_deg",
            f"a sector of {kernel.sector_deg[1] - kernel.sector_deg[0]:g} degrees is too narrow to "
            "derive fringes from",
            "make it at least 1, or give the kernel.fringe_periods",
        )


def _in_the_world(config: Config) -> Iterator[Problem]:
    length, horizon = config.physical.region_length, config.run.horizon
    if config.shadow_extent > length:
        yield Problem(
            "channel.shadow_extent",
            f"{config.shadow_extent:g} is longer than the rail",
            f"set channel.shadow_extent to at most {at_most(length)}",
        )
    if config.change_points >= horizon and config.drift.model == "piecewise":
        yield Problem(
            "drift.change_points",
            f"{config.change_points} change points do not fit into {horizon} slots",
            f"set drift.change_points to at most {horizon - 1}",
        )
