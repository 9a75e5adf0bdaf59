"""ET-GP-UCB of Brunzema, von Rohr, Solowjow and Trimpe (TMLR 2025, arXiv 2208.10790)."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import Field

from macontrol.config.sections.section import Section
from macontrol.controller.policies.description import (
    USES_CONFIDENCE,
    PolicyDescription,
    PolicyInputs,
)
from macontrol.controller.policies.policy import Policy, Posterior

MOST_SAMPLES = 10_000
"""The samples since the last reset that are used."""


class Settings(Section):
    """The settings of ET-GP-UCB."""

    false_alarms: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """delta_B, the probability of a reset although nothing changed"""


def build(inputs: PolicyInputs) -> Policy:
    from macontrol.controller.policies.ageing import ageing_ucb
    from macontrol.controller.policies.et_gp_ucb.posterior import ResettingPosterior

    config = inputs.config.replace(algorithm__window=MOST_SAMPLES)

    def empty() -> Posterior:
        return replace(inputs, config=config, with_samples=False).posterior()

    posterior = ResettingPosterior(
        empty, noise_std=config.noise_std, false_alarms=inputs.settings.false_alarms
    )
    return ageing_ucb(inputs, posterior)


DESCRIPTION = PolicyDescription(
    name="et-gp-ucb",
    summary="the largest upper confidence bound; all samples are dropped when one does not fit",
    build=build,
    optimal_beta=1.0,
    uses=USES_CONFIDENCE,
    settings=Settings,
)
