"""What our posterior is timed against: the same equations, solved from scratch in every slot."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import insort
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, solve_triangular

from macontrol.config.model.grid import Grid
from macontrol.controller.policies.kernel import StationaryKernel

Array = NDArray[np.float64]


class FromScratch(ABC):
    """A posterior that solves the whole window anew, as soon as it is asked after a new sample."""

    def __init__(
        self, kernel: StationaryKernel, grid: Grid, *, sigma_f2: float, ridge: float, window: int
    ) -> None:
        self.kernel = kernel
        self.grid = grid
        self.sigma_f2 = sigma_f2
        self.ridge = ridge
        self.window = window
        self._samples: list[tuple[int, float, float]] = []
        self._solved: tuple[Array, Array] | None = None

    @property
    def mean(self) -> Array:
        return self._solution()[0]

    @property
    def variance(self) -> Array:
        return self._solution()[1]

    def observe(self, slot: int, position: float, reward: float) -> None:
        insort(self._samples, (slot, position, reward), key=itemgetter(0))
        del self._samples[: -self.window]
        self._solved = None

    def withdraw(self, slot: int) -> None:
        self._samples = [sample for sample in self._samples if sample[0] != slot]
        self._solved = None

    @abstractmethod
    def solve(self, position: Array, reward: Array) -> tuple[Array, Array]:
        """Mean and variance over the grid, given the window's samples."""

    def _solution(self) -> tuple[Array, Array]:
        if self._solved is None:
            _, position, reward = np.array(self._samples).T
            self._solved = self.solve(position, reward)
        return self._solved


class ScipyPosterior(FromScratch):
    """A Cholesky factorisation of the w×w matrix by SciPy.

    The kernel is looked up in a table of the grid, so samples must stand on it: evaluating the
    kernel, as `DirectPosterior` does for any position, takes longer than all the rest.
    """

    def __init__(
        self, kernel: StationaryKernel, grid: Grid, *, sigma_f2: float, ridge: float, window: int
    ) -> None:
        super().__init__(kernel, grid, sigma_f2=sigma_f2, ridge=ridge, window=window)
        self._table: Array = sigma_f2 * kernel(grid.points[:, None] - grid.points[None, :])

    def solve(self, position: Array, reward: Array) -> tuple[Array, Array]:
        index = np.rint(position / self.grid.spacing).astype(np.intp)
        cross = self._table[index]
        gram = cross[:, index]
        gram[np.diag_indices_from(gram)] += self.ridge
        factor = cholesky(gram, lower=True, overwrite_a=True, check_finite=False)
        mean: Array = cho_solve((factor, True), reward, check_finite=False) @ cross
        whitened = solve_triangular(factor, cross, lower=True, overwrite_b=True, check_finite=False)
        variance: Array = self.sigma_f2 - np.einsum("ij,ij->j", whitened, whitened)
        return mean, variance
