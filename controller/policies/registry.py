"""From a config and a survey to a policy ready for slot 1: the one place that builds them."""

from __future__ import annotations

import numpy as np

from macontrol.config import Config
from macontrol.config.model.errors import ConfigError
from macontrol.config.model.rounding import at_least
from macontrol.controller.policies.baselines import EpsilonGreedy, Fixed, SweepAndHold
from macontrol.controller.policies.direct import DirectPosterior
from macontrol.controller.policies.features import kernel_features
from macontrol.controller.policies.kernel import kernel_from_config
from macontrol.controller.policies.moveucb import MoveUCB, movement_price
from macontrol.controller.policies.policy import Policy
from macontrol.controller.policies.posterior import WindowedPosterior
from macontrol.controller.survey.samples import Survey

START_FROM_SAMPLES = frozenset({"sweep-and-hold"})
"""Policies that first hold the survey's best position: with sigma_f alone they cannot start."""

# Beyond this ratio of window to relative ridge, feature space keeps less than nine digits.
_WELL_CONDITIONED = 1e6
_LARGEST_DIRECT_WINDOW = 3000
# Beyond this one, rounding swallows the ridge and no solver has a digit left.
_SOLVABLE = 1e14


def make_policy(
    config: Config,
    survey: Survey,
    *,
    seed: int | None = None,
    begin_held: bool = False,
    with_samples: bool = True,
) -> Policy:
    """Build the config's policy, calibrated by the survey, its window filled from it.

    Every policy begins at x_0. With `begin_held`, Sweep-and-hold begins at the survey's best
    position instead, as in the paper's own figures (Setup), and is not charged for the way there.
    Without samples the survey gives sigma_f alone: the posterior starts from the prior.
    """
    algorithm, physical = config.algorithm, config.physical
    grid, rho_max = config.grid, physical.rho_max
    start = grid.snap(physical.x_0)
    if algorithm.policy == "fixed":
        return Fixed(start)
    if algorithm.policy == "sweep-and-hold":
        hold = grid.snap(survey.best_position)
        return SweepAndHold(
            grid,
            rho_max=rho_max,
            period=algorithm.sweep_period,
            sweep_slots=config.traversal_slots,
            start_position=hold if begin_held else start,
            hold=hold,
        )
    sigma_f2 = survey.sigma_f2(config)
    posterior = make_posterior(config, sigma_f2)
    if with_samples:
        first = 1 - len(survey.position)
        samples = zip(survey.position, survey.reward, strict=True)
        for slot, (position, reward) in enumerate(samples, start=first):
            posterior.observe(slot, float(position), float(reward))
    if algorithm.policy == "epsilon-greedy":
        return EpsilonGreedy(
            posterior,
            rho_max=rho_max,
            epsilon=algorithm.epsilon,
            start_position=start,
            rng=np.random.default_rng(config.run.seed if seed is None else seed),
        )
    sigma_f = float(np.sqrt(sigma_f2))
    price = movement_price(
        config.reward.movement_cost,
        eta=algorithm.eta,
        sigma_f=sigma_f,
        rho_max=rho_max,
        window=algorithm.window,
    )
    gp_ucb = algorithm.policy == "gp-ucb"
    return MoveUCB(
        posterior,
        rho_max=rho_max,
        beta=algorithm.beta_for(algorithm.policy),
        price=price if algorithm.use_movement_cost and not gp_ucb else 0.0,
        margin=algorithm.margin * sigma_f if algorithm.use_persistence and not gp_ucb else 0.0,
        start_position=start,
        search="local" if gp_ucb else algorithm.search,
    )


def make_posterior(config: Config, sigma_f2: float) -> WindowedPosterior | DirectPosterior:
    """The posterior in feature space, or the direct one where the ridge is too small for that."""
    kernel, grid = kernel_from_config(config.kernel), config.grid
    ridge, window = config.algorithm.ridge, config.algorithm.window
    conditioning = window * sigma_f2 / ridge
    if conditioning <= _WELL_CONDITIONED:
        return WindowedPosterior(
            kernel_features(kernel, grid), sigma_f2=sigma_f2, ridge=ridge, window=window
        )
    if window > _LARGEST_DIRECT_WINDOW or conditioning > _SOLVABLE:
        least = window * sigma_f2 / _WELL_CONDITIONED
        fix = f"set algorithm.ridge to at least {at_least(least, 3)}"
        if _LARGEST_DIRECT_WINDOW * sigma_f2 / ridge <= _SOLVABLE:
            fix += f", or algorithm.window to at most {_LARGEST_DIRECT_WINDOW}"
        raise ConfigError(
            f"algorithm.ridge: {ridge:g} is too small for a window of {window} samples at a "
            f"reward variance of {sigma_f2:.3g}; {fix}, or scale the rewards down"
        )
    return DirectPosterior(kernel, grid, sigma_f2=sigma_f2, ridge=ridge, window=window)
