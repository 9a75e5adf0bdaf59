"""From a config and a survey to a policy ready for slot 1: the one place that builds them."""

from __future__ import annotations

import numpy as np

from macontrol.config import Config
from macontrol.config.errors import ConfigError
from macontrol.controller.baselines import EpsilonGreedy, Fixed, SweepAndHold
from macontrol.controller.direct import DirectPosterior
from macontrol.controller.features import kernel_features
from macontrol.controller.grid import Grid
from macontrol.controller.kernel import kernel_from_config
from macontrol.controller.moveucb import MoveUCB, movement_price
from macontrol.controller.policy import Policy
from macontrol.controller.posterior import WindowedPosterior
from macontrol.controller.survey import Survey

# Beyond this ratio of window to relative ridge, feature space keeps less than nine digits.
_WELL_CONDITIONED = 1e6
_LARGEST_DIRECT_WINDOW = 3000
# Beyond this one, rounding swallows the ridge and no solver has a digit left.
_SOLVABLE = 1e14


def make_policy(config: Config, survey: Survey, *, seed: int | None = None) -> Policy:
    """Build the config's policy, calibrated by the survey, its window filled from it."""
    algorithm, physical = config.algorithm, config.physical
    grid, rho_max = Grid.from_config(config), physical.rho_max
    if algorithm.policy == "fixed":
        return Fixed(grid.snap(physical.x_0))
    if algorithm.policy == "sweep-and-hold":
        return SweepAndHold(
            grid,
            rho_max=rho_max,
            period=algorithm.sweep_period,
            sweep_slots=config.survey.samples,
            start_position=grid.snap(survey.best_position),
        )
    sigma_f2 = survey.sigma_f2(config)
    posterior = make_posterior(config, sigma_f2)
    count = len(survey.position)
    for number, (position, reward) in enumerate(zip(survey.position, survey.reward, strict=True)):
        posterior.observe(number + 1 - count, float(position), float(reward))
    start = grid.snap(physical.x_0)
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
    """The incremental posterior, or the direct one where the ridge is too small for it."""
    kernel, grid = kernel_from_config(config.kernel), Grid.from_config(config)
    ridge, window = config.algorithm.ridge, config.algorithm.window
    conditioning = window * sigma_f2 / ridge
    if conditioning <= _WELL_CONDITIONED:
        return WindowedPosterior(
            kernel_features(kernel, grid), sigma_f2=sigma_f2, ridge=ridge, window=window
        )
    if window > _LARGEST_DIRECT_WINDOW or conditioning > _SOLVABLE:
        least = window * sigma_f2 / _WELL_CONDITIONED
        raise ConfigError(
            f"algorithm.ridge: {ridge:g} is too small for a window of {window} samples at a "
            f"reward variance of {sigma_f2:.3g}; set it to at least {least:.3g}, or the window "
            f"to at most {_LARGEST_DIRECT_WINDOW}, or scale the rewards down"
        )
    return DirectPosterior(kernel, grid, sigma_f2=sigma_f2, ridge=ridge, window=window)
