"""TV-GP-UCB of Bogunovic, Scarlett and Cevher (AISTATS 2016, arXiv 1601.06650)."""

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
    """The settings of TV-GP-UCB."""

    change_rate: Annotated[float, Field(ge=0, lt=1)] = 0.001
    """epsilon, how much of the reward is new in every slot"""


def build(inputs: PolicyInputs) -> Policy:
    from macontrol.controller.policies.ageing import ageing_ucb
    from macontrol.controller.policies.tv_gp_ucb.posterior import DriftingPosterior

    config = inputs.config
    posterior = DriftingPosterior(
        inputs.features(),
        sigma_f2=inputs.sigma_f2,
        ridge=config.algorithm.ridge,
        change_rate=inputs.settings.change_rate,
        offset=inputs.survey.offset(config),
    )
    return ageing_ucb(inputs, posterior)


DESCRIPTION = PolicyDescription(
    name="tv-gp-ucb",
    summary="the largest upper confidence bound of a reward that drifts at a known rate",
    build=build,
    optimal_beta=1.0,
    uses=USES_CONFIDENCE,
    settings=Settings,
)
