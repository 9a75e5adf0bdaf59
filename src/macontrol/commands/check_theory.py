"""The constants of the paper's analysis for a config, by Theorem 1 and the lemmas.

They bound the worst case and are far from the best values: the paper itself uses β = 1.5 and
Δ = 0.1 σ_f. Quantities that the theorem assumes known are estimated in the simulated world of the
config, and the table says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from macontrol.config import Config
from macontrol.controller.policies.features import kernel_features
from macontrol.controller.policies.kernel import StationaryKernel, kernel_from_config
from macontrol.controller.policies.theory import (
    balanced_margin,
    confidence_beta,
    information_gain,
    surface_bound,
    switch_cost,
)
from macontrol.controller.survey.samples import Survey
from macontrol.sim.world.channel import reward_rows

Array = NDArray[np.float64]

FAILURE_PROBABILITY = 0.05
"""δ: the theorem holds with probability 1 − δ."""
_VARIATION_SLOTS = 400
"""V_T is extrapolated from this many slots of the simulated world."""


@dataclass(frozen=True)
class TheoryConstants:
    """The constants of Theorem 1 and its lemmas."""

    norm_bound: float
    """B, a lower estimate: the RKHS norm of the posterior mean of the survey."""
    noise_bound: float
    """R = σ_ε: Gaussian noise is sub-Gaussian with its standard deviation."""
    gamma_w: float
    """γ_w, by the greedy maximizer: at least 1 − 1/e of it (eq. infogain)."""
    beta: float
    """β of Theorem 1."""
    c_0: float
    """C_0 (eq. c0)."""
    variation: float
    """V_T (eq. variation)."""
    surface_movement: float
    """S̄_T, with the hidden constant set to 1 (eq. surface-bound)."""
    margin: float
    """Δ = √(C_0·S̄_T/T), with the hidden constant set to 1 (eq. margin)."""


def theory_constants(config: Config, survey: Survey) -> TheoryConstants:
    """Compute the constants for a config, with the survey's output scale σ_f."""
    algorithm, horizon = config.algorithm, config.run.horizon
    kernel, sigma_f2 = kernel_from_config(config.kernel), survey.sigma_f2(config)
    features = kernel_features(kernel, config.grid)
    gamma_w = information_gain(features, algorithm.window, sigma_f2=sigma_f2, ridge=algorithm.ridge)
    norm_bound = posterior_norm(
        kernel,
        survey.position,
        survey.reward - survey.offset(config),
        sigma_f2=sigma_f2,
        ridge=algorithm.ridge,
    )
    beta = confidence_beta(
        norm_bound=norm_bound,
        noise_bound=config.noise_std,
        ridge=algorithm.ridge,
        gamma_w=gamma_w,
        horizon=horizon,
        delta=FAILURE_PROBABILITY,
    )
    physical = config.physical
    c_0 = switch_cost(
        length=physical.region_length,
        movement_cost=config.reward.movement_cost,
        g_max=config.g_max,
        rho_max=physical.rho_max,
        arrival=(1.0 - physical.actuation_plan.weight(physical.rho_max)) * config.g_max,
    )
    variation = _variation(config)
    surface_movement = surface_bound(
        beta=beta,
        sigma_f=sqrt(sigma_f2),
        noise_bound=config.noise_std,
        ridge=algorithm.ridge,
        gamma_w=gamma_w,
        window=algorithm.window,
        horizon=horizon,
        variation=variation,
    )
    margin = balanced_margin(c_0=c_0, surface_movement=surface_movement, horizon=horizon)
    return TheoryConstants(
        norm_bound, config.noise_std, gamma_w, beta, c_0, variation, surface_movement, margin
    )


def posterior_norm(
    kernel: StationaryKernel, position: Array, rewards: Array, *, sigma_f2: float, ridge: float
) -> float:
    """‖μ‖ in the RKHS of σ_f²·k, for the posterior mean of a survey: √(αᵀKα), (K + ϱI)α = r."""
    lag = position[:, None] - position[None, :]
    gram: Array = sigma_f2 * kernel(lag)
    weights = np.linalg.solve(gram + ridge * np.eye(len(gram)), rewards)
    return sqrt(max(float(weights @ gram @ weights), 0.0))


def _variation(config: Config) -> float:
    """V_T = Σ sup|g_{t+1} − g_t|, extrapolated from the first slots of the simulated world."""
    slots = min(_VARIATION_SLOTS, config.run.horizon)
    if slots < 2:
        return 0.0
    rewards = reward_rows(config, config.run.seed, slots)
    per_slot = float(np.abs(np.diff(rewards, axis=0)).max(axis=1).mean())
    return per_slot * (config.run.horizon - 1)


def theory_table(config: Config, survey: Survey) -> Table:
    """The constants, each with its meaning and what it assumes."""
    found, algorithm, horizon = (
        theory_constants(config, survey),
        config.algorithm,
        config.run.horizon,
    )
    sigma_f = sqrt(survey.sigma_f2(config))
    used_beta = algorithm.beta_for(algorithm.policy)
    table = Table(
        "constant", "value", "meaning", title="the paper's analysis, for this configuration"
    )
    rows = [
        ("T", f"{horizon}", "slots of the horizon (run.horizon)"),
        ("δ", f"{FAILURE_PROBABILITY:g}", "the bound holds with probability 1 − δ"),
        (
            "B",
            f"{found.norm_bound:.4g}",
            "norm of the reward that Assumption 1 bounds; estimated from the simulated survey, "
            "the true one is larger",
        ),
        ("R", f"{found.noise_bound:.4g}", "Assumption 2: noise is sub-Gaussian; σ_ε for Gaussian"),
        (
            "γ_w",
            f"{found.gamma_w:.4g}",
            f"information gain of w = {algorithm.window} samples, greedy: at least 63 % of the "
            "maximum",
        ),
        (
            "β",
            f"{found.beta:.4g}",
            f"confidence parameter of Theorem 1; this configuration uses {used_beta:g}",
        ),
        (
            "C_0",
            f"{found.c_0:.4g}",
            "largest cost of one target switch: energy and reward lost in transit",
        ),
        (
            "V_T",
            f"{found.variation:.4g}",
            f"variation budget, {found.variation / max(horizon - 1, 1):.3g} per slot of the "
            "simulated world",
        ),
        (
            "S_T",
            f"{found.surface_movement:.4g}",
            "bound on the movement of the acquisition surface; hidden constant set to 1",
        ),
        (
            "Δ",
            f"{found.margin:.4g}",
            f"margin √(C_0 S_T / T), constant set to 1: {found.margin / sigma_f:.3g} σ_f; this "
            f"configuration uses {algorithm.margin:g} σ_f",
        ),
    ]
    for row in rows:
        table.add_row(*row)
    return table
