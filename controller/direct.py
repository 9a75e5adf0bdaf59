"""The posterior as the paper prints it: factor the w×w Gram matrix from scratch in every slot.

Some fifty times slower than `WindowedPosterior`, and the better choice only where the ridge is so
small against sigma_f^2 that feature space would lose digits: solving for the window's samples
instead of for the features does not square the features' conditioning.
"""

from __future__ import annotations

from bisect import bisect_left
from math import isfinite
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, solve_triangular

from macontrol.controller.grid import Grid
from macontrol.controller.kernel import StationaryKernel

Array = NDArray[np.float64]


class DirectPosterior:
    """Equations posterior_mean and posterior_var, solved anew after every observation."""

    def __init__(
        self, kernel: StationaryKernel, grid: Grid, *, sigma_f2: float, ridge: float, window: int
    ) -> None:
        self.kernel = kernel
        self.grid = grid
        self.sigma_f2 = sigma_f2
        self.window = window
        self._ridge = ridge
        self._samples: list[tuple[int, float, float]] = []
        self._solved = False
        self._mean: Array = np.zeros(grid.size)
        self._variance: Array = np.full(grid.size, sigma_f2)

    def __len__(self) -> int:
        return len(self._samples)

    @property
    def mean(self) -> Array:
        self._solve()
        return self._mean

    @property
    def variance(self) -> Array:
        self._solve()
        return self._variance

    def observe(self, slot: int, position: float, reward: float) -> None:
        """Take in the reward of a slot; of more than w samples the oldest leaves.

        Late, repeated and broken rewards are treated as by `WindowedPosterior`.
        """
        if not isfinite(reward):
            raise ValueError(f"the reward of slot {slot} is {reward!r}, not a finite number")
        place = bisect_left(self._samples, slot, key=itemgetter(0))
        if place < len(self._samples) and self._samples[place][0] == slot:
            return
        self._samples.insert(place, (slot, position, reward))
        del self._samples[: -self.window]
        self._solved = False

    def _solve(self) -> None:
        if self._solved or not self._samples:
            return
        positions = np.array([position for _, position, _ in self._samples])
        rewards = np.array([reward for _, _, reward in self._samples])
        gram = self.sigma_f2 * self.kernel(positions[:, None] - positions[None, :])
        gram[np.diag_indices_from(gram)] += self._ridge
        cross = self.sigma_f2 * self.kernel(positions[:, None] - self.grid.points[None, :])
        factor = cholesky(gram, lower=True, overwrite_a=True, check_finite=False)
        self._mean = cho_solve((factor, True), rewards, check_finite=False) @ cross
        whitened = solve_triangular(factor, cross, lower=True, check_finite=False)
        self._variance = self.sigma_f2 - np.einsum("ij,ij->j", whitened, whitened)
        self._solved = True
