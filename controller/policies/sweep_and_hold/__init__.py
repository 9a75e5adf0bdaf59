"""Sweep-and-hold, a baseline of the paper."""

from __future__ import annotations

from macontrol.controller.policies.description import PolicyDescription, PolicyInputs
from macontrol.controller.policies.policy import Policy


def build(inputs: PolicyInputs) -> Policy:
    from macontrol.controller.policies.sweep_and_hold.algorithm import SweepAndHold

    config = inputs.config
    hold = config.grid.snap(inputs.survey.best_position)
    return SweepAndHold(
        config.grid,
        rho_max=config.physical.rho_max,
        period=config.algorithm.sweep_period,
        sweep_slots=config.traversal_slots,
        start_position=hold if inputs.begin_held else inputs.start_position,
        hold=hold,
    )


DESCRIPTION = PolicyDescription(
    name="sweep-and-hold",
    summary="the best position of a sweep over the rail, once per period",
    build=build,
    starts_from_samples=True,
    uses=frozenset({"algorithm.sweep_period"}),
)
