"""ε-greedy, a baseline of the paper."""

from __future__ import annotations

from macontrol.controller.policies.description import (
    USES_POSTERIOR,
    PolicyDescription,
    PolicyInputs,
)
from macontrol.controller.policies.policy import Policy


def build(inputs: PolicyInputs) -> Policy:
    import numpy as np

    from macontrol.controller.policies.epsilon_greedy.algorithm import EpsilonGreedy

    config = inputs.config
    return EpsilonGreedy(
        inputs.posterior(),
        rho_max=config.physical.rho_max,
        epsilon=config.algorithm.epsilon,
        start_position=inputs.start_position,
        rng=np.random.default_rng(inputs.seed),
    )


DESCRIPTION = PolicyDescription(
    name="epsilon-greedy",
    summary="the best mean within reach, or a random position with probability epsilon",
    build=build,
    optimal_beta=0.0,
    uses=USES_POSTERIOR | {"algorithm.epsilon"},
)
