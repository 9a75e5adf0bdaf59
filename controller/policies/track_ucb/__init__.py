"""track-ucb: the policy for any world (docs/track-ucb.md)."""

from __future__ import annotations

from macontrol.controller.policies.description import PolicyDescription, PolicyInputs
from macontrol.controller.policies.policy import Policy

TIME_CONSTANTS = (150.0, 600.0, 2400.0, 20000.0)
"""τ of the filters, in slots."""
HORIZON = 150
"""H, the slots for which a target is chosen."""
MEMORY = 0.999
"""γ, by which the evidence of a filter fades with every reward."""

DOUBT = 0.1
"""ε, the part of the shares that does not depend on the evidence."""
PESSIMISM = 1.0
"""The prior mean is that of the survey less this times σ_f."""


def build(inputs: PolicyInputs) -> Policy:
    from macontrol.controller.policies.kalman_bank import KalmanBank
    from macontrol.controller.policies.track_ucb.algorithm import TrackUCB

    config, algorithm = inputs.config, inputs.config.algorithm
    sigma_f = inputs.sigma_f2**0.5
    beta = algorithm.beta_for(algorithm.policy)
    bank = KalmanBank(
        inputs.features(),
        time_constants=TIME_CONSTANTS,
        sigma_f2=inputs.sigma_f2,
        noise_variance=algorithm.ridge,
        memory=MEMORY,
        doubt=DOUBT,
        history=algorithm.window,
        offset=float(inputs.survey.reward.mean()) - PESSIMISM * sigma_f,
    )
    inputs.give_samples(bank)
    policy = TrackUCB(
        bank,
        rho_max=config.physical.rho_max,
        beta=beta,
        movement_cost=inputs.movement_cost,
        margin=algorithm.margin * sigma_f,
        horizon=HORIZON,
        start_position=inputs.start_position,
    )
    policy.offer("beta", beta, policy.set_beta)
    policy.offer("margin", algorithm.margin, lambda m: policy.set_margin(m * sigma_f))
    return policy


DESCRIPTION = PolicyDescription(
    name="track-ucb",
    summary="a bank of filters for slow and fast worlds, and a target worth its way",
    build=build,
    optimal_beta=1.5,
    uses=frozenset({"algorithm.beta", "algorithm.margin", "algorithm.ridge", "kernel"}),
    variants={"economy": {"algorithm.margin": 0.25}},
)
