"""Posteriors that run over many slots, and their error compared with the paper's equations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import cos, pi, sin, sqrt

import numpy as np
from numpy.typing import NDArray

from macontrol.config import Config
from macontrol.config.model.grid import Grid
from macontrol.controller.policies.estimate import make_posterior
from macontrol.controller.policies.gram import GramPosterior
from macontrol.controller.policies.posterior import WindowedPosterior
from support.paper_reference import covariance, posterior

Array = NDArray[np.float64]
Posterior = WindowedPosterior | GramPosterior
Walk = Callable[[np.random.Generator, Grid], Iterator[float]]


def wander(rng: np.random.Generator, grid: Grid) -> Iterator[float]:
    """A few grid steps either way in every slot."""
    index = grid.size // 2
    while True:
        yield float(grid.points[index])
        index = int(np.clip(index + rng.integers(-6, 7), 0, grid.size - 1))


def dwell(rng: np.random.Generator, grid: Grid) -> Iterator[float]:
    """One position for a long time, then another: what MoveUCB does, and what repeats positions."""
    while True:
        position = float(grid.points[rng.integers(grid.size)])
        for _ in range(rng.integers(1, 400)):
            yield position


def scatter(rng: np.random.Generator, grid: Grid) -> Iterator[float]:
    """Anywhere on the rail, off the grid."""
    while True:
        yield float(rng.uniform(0.0, grid.length))


def fringes(position: float) -> float:
    """A reward of scale 1 as the kernel expects one, without noise."""
    return 2.0 + cos(2 * pi * position / 1.81 + 0.3) + 0.5 * sin(2 * pi * position / 4.15)


class History:
    """Every sample in order, and how far a posterior is from the direct solve of the last w."""

    def __init__(self, config: Config, sigma_f2: float) -> None:
        self.config = config
        self.sigma_f2 = sigma_f2
        self.k = covariance(config.kernel)
        self.at = np.linspace(0.0, config.physical.region_length, config.grid_size)
        self.samples: dict[int, tuple[float, float]] = {}

    def add(self, slot: int, position: float, reward: float) -> None:
        self.samples.setdefault(slot, (position, reward))

    def error(self, posterior_: Posterior) -> float:
        """The larger of the two relative errors."""
        newest = sorted(self.samples)[-self.config.algorithm.window :]
        x = np.array([self.samples[slot][0] for slot in newest])
        r = np.array([self.samples[slot][1] for slot in newest])
        mean, variance = posterior(
            self.k, x, r, self.at, sigma_f2=self.sigma_f2, ridge=self.config.algorithm.ridge
        )
        of_mean = np.abs(posterior_.mean - mean).max() / np.abs(r).max()
        of_variance = np.abs(posterior_.variance - variance).max() / self.sigma_f2
        return float(max(of_mean, of_variance))


def slide(
    config: Config,
    slots: int,
    *,
    sigma_f2: float = 1.0,
    walk: Walk = wander,
    check_every: int = 997,
    noise: float | None = None,
) -> tuple[Posterior, float]:
    """Run a posterior over a number of slots; return it and its largest error at a checked slot.

    The rewards are nothing but noise of the scale of sigma_f, the hardest to predict, unless the
    noise is given: then they are fringes with that much noise.
    """
    rng, grid = np.random.default_rng(0), config.grid
    subject, history = make_posterior(config, sigma_f2), History(config, sigma_f2)
    scale, worst = sqrt(sigma_f2), 0.0
    for slot, position in zip(range(1, slots + 1), walk(rng, grid), strict=False):
        if noise is None:
            reward = scale * float(2.0 + rng.standard_normal())
        else:
            reward = scale * fringes(position) + noise * float(rng.standard_normal())
        subject.observe(slot, position, reward)
        history.add(slot, position, reward)
        if slot % check_every == 0 or slot == slots:
            worst = max(worst, history.error(subject))
            for old in sorted(history.samples)[: -config.algorithm.window]:
                del history.samples[old]
    return subject, worst


def coarse(config: Config, spacing: float = 0.05) -> Config:
    """The same on fewer grid points, for the direct solve's sake."""
    return config.replace(
        algorithm__grid_spacing=spacing,
        survey__samples=20,
        physical__actuator_speed_m_per_s=10.0,
        physical__stroke="auto",
    )
