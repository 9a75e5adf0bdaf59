"""A zeroth-order climber in the manner of Zeng et al. (arXiv 2408.04951): no estimate of a map."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from macontrol.config.sections.section import Positive, Section
from macontrol.controller.policies.description import PolicyDescription, PolicyInputs
from macontrol.controller.policies.policy import Policy


class Settings(Section):
    """The settings of the climber."""

    half_distance: Positive = 0.03
    """from the centre to each of the two points where the reward is measured (wavelengths)"""
    step_gain: Positive = 0.01
    """the step of the centre per slope of the reward (wavelengths per bit/s/Hz per wavelength)"""
    rewards_per_point: Annotated[int, Field(ge=1, le=1000)] = 8
    """how many rewards are averaged at each point"""


def build(inputs: PolicyInputs) -> Policy:
    from macontrol.controller.policies.two_point.algorithm import TwoPointClimber

    config, settings = inputs.config, inputs.settings
    return TwoPointClimber(
        config.grid,
        rho_max=config.physical.rho_max,
        half_distance=settings.half_distance,
        gain=settings.step_gain,
        rewards_per_point=settings.rewards_per_point,
        start_position=inputs.start_position,
        first_point=inputs.survey.best_position,
    )


DESCRIPTION = PolicyDescription(
    name="two-point",
    summary="climbs the slope between the rewards of two points around a centre",
    build=build,
    starts_from_samples=True,
    uses=frozenset(),
    settings=Settings,
)
