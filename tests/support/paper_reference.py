"""The paper as plain and slow code, for tests to compare with.

It uses nothing of the package except the config with the numbers. Kernels are formulas of the lag,
the posterior is a direct solve of equations posterior_mean and posterior_var, and policies are
loops that follow the text line by line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from macontrol.config import Config
from macontrol.config.sections.kernel import Kernel

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
Covariance = Callable[[Array], Array]
"""Of the lag, in wavelengths; 1 at lag 0."""


def covariance(kernel: Kernel) -> Covariance:
    """The kernel of a config whose periods and damping are given as numbers."""
    periods, damping = kernel.fringe_periods, kernel.fringe_damping
    assert periods != "auto"
    assert damping != "auto"
    constant, residual = kernel.constant_weight, kernel.residual_weight

    def squared_exponential(lag: Array, length: float) -> Array:
        return np.exp(-(lag**2) / (2 * length**2))

    def physics(lag: Array) -> Array:
        total = constant + residual * squared_exponential(lag, kernel.residual_length)
        for period in periods:
            weight = (1 - constant - residual) / len(periods)
            total = total + weight * np.cos(2 * np.pi * lag / period) * squared_exponential(
                lag, damping
            )
        return total

    def nonoscillatory(lag: Array) -> Array:
        return (
            constant
            + residual * squared_exponential(lag, kernel.residual_length)
            + (1 - constant - residual) * squared_exponential(lag, damping)
        )

    def se(lag: Array) -> Array:
        return squared_exponential(lag, kernel.se_length)

    def const_se(lag: Array) -> Array:
        # The paper: σ_f²/4 + 3k_SE/4, with the weight 1/4 that the other kernels have too.
        return constant + (1 - constant) * squared_exponential(lag, kernel.se_length)

    return {
        "physics": physics,
        "nonoscillatory": nonoscillatory,
        "se": se,
        "const-se": const_se,
    }[kernel.name]


def posterior(
    k: Covariance,
    x: Array,
    r: Array,
    at: Array,
    *,
    sigma_f2: float,
    ridge: float,
) -> tuple[Array, Array]:
    """μ and σ² at positions, given rewards r at x (eqs. posterior_mean, posterior_var)."""
    if len(x) == 0:
        return np.zeros(len(at)), np.full(len(at), sigma_f2)
    gram = sigma_f2 * k(x[:, None] - x[None, :]) + ridge * np.eye(len(x))
    cross = sigma_f2 * k(at[:, None] - x[None, :])
    solved = np.linalg.solve(gram, np.column_stack([r, cross.T]))
    mean = cross @ solved[:, 0]
    variance = sigma_f2 - np.einsum("ij,ji->i", cross, solved[:, 1:])
    return mean, variance


def log_det_gain(k: Covariance, x: Array, *, sigma_f2: float, ridge: float) -> float:
    """½ log det(I + K/ϱ) of a set of positions (eq. infogain)."""
    sign, value = np.linalg.slogdet(np.eye(len(x)) + sigma_f2 * k(x[:, None] - x[None, :]) / ridge)
    assert sign > 0
    return 0.5 * float(value)


@dataclass(frozen=True)
class Run:
    """The run of a policy, slot by slot."""

    position: Array
    target: Array
    switched: Flags
    transit: Flags
    surface_movement: float
    """S_T = Σ_t max_x |F_{t+1}(x) − F_t(x)| (Lemma switch)."""
    shortfall: Array
    """max F_t − F_t(z_t), of Proposition 1."""


def grid_points(config: Config) -> Array:
    return np.linspace(0.0, config.physical.region_length, config.grid_size)


def survey_scale(config: Config, rewards: Array) -> float:
    """σ_f²: sample variance of the survey net of the noise's, floored."""
    n = len(rewards)
    sample_variance = float(((rewards - rewards.mean()) ** 2).sum()) / (n - 1)
    return max(sample_variance - config.noise_std**2, config.survey.variance_floor)


def window_posterior(
    config: Config, window: list[tuple[float, float]], sigma_f2: float
) -> tuple[Array, Array]:
    """Mean and variance over the grid, given the (position, reward) samples of a window."""
    position, reward = np.array(window).T
    return posterior(
        covariance(config.kernel),
        position,
        reward,
        grid_points(config),
        sigma_f2=sigma_f2,
        ridge=config.algorithm.ridge,
    )


def move_ucb(
    config: Config,
    reward: Array,
    noise: Array,
    survey: Iterable[tuple[float, float]],
    *,
    beta: float,
) -> Run:
    """Algorithm 1 as printed, with each switch of the ablation ladder."""
    settings, points = config.algorithm, grid_points(config)
    window = [(float(x), float(r)) for x, r in survey]
    sigma_f2 = survey_scale(config, np.array([r for _, r in window]))
    sigma_f = np.sqrt(sigma_f2)
    rho_max, w = config.physical.rho_max, settings.window
    c = (config.reward.movement_cost + settings.eta * sigma_f / rho_max) / w
    c = c if settings.use_movement_cost else 0.0
    margin = settings.margin * sigma_f if settings.use_persistence else 0.0

    x = z = float(points[np.abs(points - config.physical.x_0).argmin()])
    rows: list[tuple[float, float, bool, bool, float]] = []
    movement, last = 0.0, None
    for t in range(len(noise)):
        window.append((x, float(np.interp(x, points, reward[t])) + float(noise[t])))
        window = window[-w:]
        mu, variance = window_posterior(config, window, sigma_f2)
        F = mu + beta * np.sqrt(np.maximum(variance, 0)) - c * np.abs(points - x)
        if last is not None:
            movement += float(np.abs(F - last).max())
        last = F
        at_target = int(np.abs(points - z).argmin())
        best = int(F.argmax())
        switched = bool(F[at_target] < F[best] - margin)
        if switched:
            z = float(points[best])
            at_target = best
        following = x + np.sign(z - x) * min(rho_max, abs(z - x))
        following = float(nearest_if_close(points, following))
        rows.append((x, z, switched, abs(following - z) > 1e-9, float(F[best] - F[at_target])))
        x = following
    position, target, switches, transit, shortfall = zip(*rows, strict=True)
    return Run(
        np.array(position),
        np.array(target),
        np.array(switches),
        np.array(transit),
        movement,
        np.array(shortfall),
    )


def gp_ucb(
    config: Config,
    reward: Array,
    noise: Array,
    survey: Iterable[tuple[float, float]],
    *,
    beta: float,
) -> Array:
    """x_1 … x_T of GP-UCB: the largest UCB of the grid positions within one stroke."""
    settings, points = config.algorithm, grid_points(config)
    window = [(float(x), float(r)) for x, r in survey]
    sigma_f2 = survey_scale(config, np.array([r for _, r in window]))
    x = float(points[np.abs(points - config.physical.x_0).argmin()])
    visited = []
    for t in range(len(noise)):
        visited.append(x)
        window.append((x, float(np.interp(x, points, reward[t])) + float(noise[t])))
        window = window[-settings.window :]
        mu, variance = window_posterior(config, window, sigma_f2)
        ucb = mu + beta * np.sqrt(np.maximum(variance, 0))
        ucb[np.abs(points - x) > config.physical.rho_max + 1e-9] = -np.inf
        x = float(points[ucb.argmax()])
    return np.array(visited)


def nearest_if_close(points: Array, x: float) -> float:
    """The grid point at a position up to rounding, or the position itself."""
    nearest = float(points[np.abs(points - x).argmin()])
    return nearest if abs(nearest - x) <= 1e-9 else x
