"""GP-UCB over an estimate that ages: what TV-GP-UCB, WGP-UCB and ET-GP-UCB share.

These policies go for the largest upper confidence bound, without a price of movement and without
persistence. They differ in their estimate, which depends on the slot.
"""

from __future__ import annotations

from typing import Protocol, cast

from macontrol.controller.policies.description import USES_POSTERIOR, PolicyInputs
from macontrol.controller.policies.moveucb.algorithm import MoveUCB
from macontrol.controller.policies.policy import Decision, Posterior

USES = USES_POSTERIOR | {"algorithm.beta", "algorithm.search"}
"""The settings of `[algorithm]` and others that these policies use."""


class AgeingPosterior(Posterior, Protocol):
    """An estimate that depends on the slot, also where no reward is new."""

    def age_to(self, slot: int) -> None:
        """Set mean and variance to those after this slot."""


class AgeingUCB(MoveUCB):
    """The largest upper confidence bound of an estimate that ages."""

    def decide(self, slot: int, position: float) -> Decision:
        cast("AgeingPosterior", self.posterior).age_to(slot)
        return super().decide(slot, position)


def ageing_ucb(inputs: PolicyInputs, posterior: AgeingPosterior) -> AgeingUCB:
    """The policy over an estimate, with the config's β and search."""
    config, algorithm = inputs.config, inputs.config.algorithm
    beta = algorithm.beta_for(algorithm.policy)
    policy = AgeingUCB(
        posterior,
        rho_max=config.physical.rho_max,
        beta=beta,
        price=0.0,
        margin=0.0,
        start_position=inputs.start_position,
        search=algorithm.search,
    )
    policy.offer("beta", beta, policy.set_beta)
    return policy


def observe_survey(inputs: PolicyInputs, posterior: Posterior) -> None:
    """Give an estimate the samples of the survey, in the slots before slot 1."""
    if inputs.with_samples:
        first = 1 - len(inputs.survey.position)
        samples = zip(inputs.survey.position, inputs.survey.reward, strict=True)
        for slot, (position, reward) in enumerate(samples, start=first):
            posterior.observe(slot, float(position), float(reward))
