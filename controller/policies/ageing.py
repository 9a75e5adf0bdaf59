"""GP-UCB over an estimate that ages: what TV-GP-UCB, WGP-UCB and ET-GP-UCB share.

These policies go for the largest upper confidence bound, without a price of movement and without
persistence. They differ in their estimate, which depends on the slot.
"""

from __future__ import annotations

from typing import Protocol, cast

from macontrol.controller.policies.description import PolicyInputs
from macontrol.controller.policies.moveucb.algorithm import MoveUCB
from macontrol.controller.policies.policy import Decision, Posterior


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
    """The policy over an empty estimate, which gets the survey, with the config's β and search."""
    inputs.give_samples(posterior)
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
