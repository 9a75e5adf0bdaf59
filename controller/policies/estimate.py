"""The posterior that fits a config: in feature space, or from the Gram matrix for a small ridge."""

from __future__ import annotations

from macontrol.config import Config
from macontrol.config.model.errors import ConfigError
from macontrol.config.model.rounding import at_least
from macontrol.controller.policies.features import kernel_features
from macontrol.controller.policies.gram import GramPosterior
from macontrol.controller.policies.kernel import kernel_from_config
from macontrol.controller.policies.posterior import WindowedPosterior

# Beyond this ratio of window to relative ridge, feature space keeps less than nine digits.
_WELL_CONDITIONED = 1e6
_LARGEST_GRAM_WINDOW = 3000
# Beyond this ratio the ridge is below rounding, and no solver has a correct digit.
_SOLVABLE = 1e14


def make_posterior(
    config: Config, sigma_f2: float, offset: float = 0.0
) -> WindowedPosterior | GramPosterior:
    """The posterior in feature space; from the Gram matrix where the ridge is too small for that.

    `offset` is its prior mean.
    """
    kernel, grid = kernel_from_config(config.kernel), config.grid
    ridge, window = config.algorithm.ridge, config.algorithm.window
    conditioning = window * sigma_f2 / ridge
    if conditioning <= _WELL_CONDITIONED:
        return WindowedPosterior(
            kernel_features(kernel, grid),
            sigma_f2=sigma_f2,
            ridge=ridge,
            window=window,
            offset=offset,
        )
    if window > _LARGEST_GRAM_WINDOW or conditioning > _SOLVABLE:
        least = window * sigma_f2 / _WELL_CONDITIONED
        fix = f"set algorithm.ridge to at least {at_least(least, 3)}"
        if _LARGEST_GRAM_WINDOW * sigma_f2 / ridge <= _SOLVABLE:
            fix += f", or algorithm.window to at most {_LARGEST_GRAM_WINDOW}"
        raise ConfigError(
            f"algorithm.ridge: {ridge:g} is too small for a window of {window} samples at a "
            f"reward variance of {sigma_f2:.3g}",
            f"{fix}, or scale the rewards down",
        )
    return GramPosterior(kernel, grid, sigma_f2=sigma_f2, ridge=ridge, window=window, offset=offset)
