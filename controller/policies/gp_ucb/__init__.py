"""GP-UCB: MoveUCB without movement cost and persistence, with the search limited to the reach."""

from __future__ import annotations

from macontrol.controller.policies.description import (
    USES_POSTERIOR,
    PolicyDescription,
    PolicyInputs,
)
from macontrol.controller.policies.policy import Policy


def build(inputs: PolicyInputs) -> Policy:
    from macontrol.controller.policies.moveucb.algorithm import MoveUCB

    config, algorithm = inputs.config, inputs.config.algorithm
    beta = algorithm.beta_for(algorithm.policy)
    policy = MoveUCB(
        inputs.posterior(),
        rho_max=config.physical.rho_max,
        beta=beta,
        price=0.0,
        margin=0.0,
        start_position=inputs.start_position,
        search="local",
    )
    policy.offer("beta", beta, policy.set_beta)
    return policy


DESCRIPTION = PolicyDescription(
    name="gp-ucb",
    summary="the largest upper confidence bound within reach",
    build=build,
    optimal_beta=3.5,
    uses=USES_POSTERIOR | {"algorithm.beta"},
)
