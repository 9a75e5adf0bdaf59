"""WGP-UCB of Deng, Zhou, Kim, Tewari, Gupta and Shroff (AISTATS 2022, arXiv 2107.02371)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from macontrol.config.sections.section import Section
from macontrol.controller.policies.description import (
    USES_CONFIDENCE,
    PolicyDescription,
    PolicyInputs,
)
from macontrol.controller.policies.policy import Policy


class Settings(Section):
    """The settings of WGP-UCB."""

    retention: Annotated[float, Field(gt=0, le=1)] = 0.99
    """eta, the weight of a sample after one slot"""


def build(inputs: PolicyInputs) -> Policy:
    from macontrol.controller.policies.ageing import ageing_ucb
    from macontrol.controller.policies.wgp_ucb.posterior import WeightedPosterior

    config = inputs.config
    posterior = WeightedPosterior(
        inputs.features(),
        sigma_f2=inputs.sigma_f2,
        ridge=config.algorithm.ridge,
        retention=inputs.settings.retention,
        offset=inputs.survey.offset(config),
    )
    return ageing_ucb(inputs, posterior)


DESCRIPTION = PolicyDescription(
    name="wgp-ucb",
    summary="the largest upper confidence bound, with less weight for older samples",
    build=build,
    optimal_beta=1.0,
    uses=USES_CONFIDENCE,
    settings=Settings,
)
