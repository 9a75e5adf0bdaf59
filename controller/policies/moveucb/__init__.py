"""MoveUCB, the paper's policy."""

from __future__ import annotations

from macontrol.controller.policies.description import (
    USES_POSTERIOR,
    PolicyDescription,
    PolicyInputs,
)
from macontrol.controller.policies.policy import Policy


def build(inputs: PolicyInputs) -> Policy:
    """Algorithm 1 with the components that the config switches on."""
    from macontrol.controller.policies.moveucb.algorithm import MoveUCB, movement_price

    config, algorithm = inputs.config, inputs.config.algorithm
    sigma_f, rho_max = inputs.sigma_f2**0.5, config.physical.rho_max
    beta = algorithm.beta_for(algorithm.policy)

    def price_of(eta: float) -> float:
        return movement_price(
            inputs.movement_cost,
            eta=eta,
            sigma_f=sigma_f,
            rho_max=rho_max,
            window=algorithm.window,
        )

    policy = MoveUCB(
        inputs.posterior(),
        rho_max=rho_max,
        beta=beta,
        price=price_of(algorithm.eta) if algorithm.use_movement_cost else 0.0,
        margin=algorithm.margin * sigma_f if algorithm.use_persistence else 0.0,
        start_position=inputs.start_position,
        search=algorithm.search,
    )
    policy.offer("beta", beta, policy.set_beta)
    if algorithm.use_movement_cost:
        policy.offer("eta", algorithm.eta, lambda eta: policy.set_price(price_of(eta)))
    if algorithm.use_persistence:
        policy.offer("margin", algorithm.margin, lambda m: policy.set_margin(m * sigma_f))
    return policy


DESCRIPTION = PolicyDescription(
    name="moveucb",
    summary="a target on the whole rail, with movement cost and persistence (Algorithm 1)",
    build=build,
    optimal_beta=1.5,
    uses=USES_POSTERIOR
    | {
        "algorithm.beta",
        "algorithm.eta",
        "algorithm.margin",
        "algorithm.search",
        "algorithm.use_movement_cost",
        "algorithm.use_persistence",
    },
    variants={
        "tuned": {"reward.offset": "survey", "algorithm.beta": 1.0, "algorithm.eta": 4.0},
    },
)
