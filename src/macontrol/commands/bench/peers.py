"""The peers that our posterior is compared with: the same equations, solved again in every slot."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, solve_triangular

from macontrol.commands.bench.direct import DirectPosterior
from macontrol.config.model.grid import Grid
from macontrol.controller.policies.kernel import StationaryKernel

Array = NDArray[np.float64]


class ScipyPosterior(DirectPosterior):
    """A Cholesky factorisation of the w×w matrix by SciPy, with a table of the kernel.

    The samples must be on the grid. To evaluate the kernel at any position, as `DirectPosterior`
    does, takes longer than all the rest.
    """

    def __init__(
        self, kernel: StationaryKernel, grid: Grid, *, sigma_f2: float, ridge: float, window: int
    ) -> None:
        super().__init__(kernel, grid, sigma_f2=sigma_f2, ridge=ridge, window=window)
        self._table: Array = sigma_f2 * kernel(grid.points[:, None] - grid.points[None, :])

    def _solution(self, samples: Sequence[tuple[int, float, float]]) -> tuple[Array, Array]:
        _, position, reward = np.array(samples).T
        index = np.rint(position / self.grid.spacing).astype(np.intp)
        cross = self._table[index]
        gram = cross[:, index]
        gram[np.diag_indices_from(gram)] += self._ridge
        factor = cholesky(gram, lower=True, overwrite_a=True, check_finite=False)
        mean: Array = cho_solve((factor, True), reward, check_finite=False) @ cross
        whitened = solve_triangular(factor, cross, lower=True, overwrite_b=True, check_finite=False)
        variance: Array = self.sigma_f2 - np.einsum("ij,ij->j", whitened, whitened)
        return mean, variance
