"""WGP-UCB of Deng, Zhou, Kim, Tewari, Gupta and Shroff (AISTATS 2022, arXiv 2107.02371)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from macontrol.config.sections.section import Section
from macontrol.controller.policies.description import PolicyDescription, PolicyInputs
from macontrol.controller.policies.policy import Policy


class Settings(Section):
    """The settings of WGP-UCB."""

    retention: Annotated[float, Field(gt=0, le=1)] = 0.99
    """eta, the weight of a sample after one slot"""


def build(inputs: PolicyInputs) -> Policy:
    from macontrol.controller.policies.ageing import ageing_ucb, observe_survey
    from macontrol.controller.policies.features import kernel_features
    from macontrol.controller.policies.kernel import kernel_from_config
    from macontrol.controller.policies.wgp_ucb.posterior import WeightedPosterior

    config = inputs.config
    posterior = WeightedPosterior(
        kernel_features(kernel_from_config(config.kernel), config.grid),
        sigma_f2=inputs.sigma_f2,
        ridge=config.algorithm.ridge,
        retention=inputs.settings.retention,
        offset=inputs.survey.offset(config),
    )
    observe_survey(inputs, posterior)
    return ageing_ucb(inputs, posterior)


DESCRIPTION = PolicyDescription(
    name="wgp-ucb",
    summary="the largest upper confidence bound, with less weight for older samples",
    build=build,
    optimal_beta=1.0,
    uses=frozenset(
        {
            *("algorithm.beta", "algorithm.search", "algorithm.ridge"),
            *("kernel", "reward.offset"),
        }
    ),
    settings=Settings,
)
