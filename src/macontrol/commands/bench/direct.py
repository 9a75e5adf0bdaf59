"""The posterior as in the paper: factor the w×w Gram matrix from scratch in every slot.

The plainest form of the equations, which the others are compared with.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from math import isfinite
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, solve_triangular

from macontrol.config.model.grid import Grid
from macontrol.controller.policies.kernel import StationaryKernel

Array = NDArray[np.float64]


class DirectPosterior:
    """Equations posterior_mean and posterior_var, solved from scratch after every change."""

    def __init__(
        self,
        kernel: StationaryKernel,
        grid: Grid,
        *,
        sigma_f2: float,
        ridge: float,
        window: int,
        offset: float = 0.0,
    ) -> None:
        self.kernel = kernel
        self.grid = grid
        self.sigma_f2 = sigma_f2
        self.window = window
        self.offset = offset
        self._ridge = ridge
        self._samples: tuple[tuple[int, float, float], ...] = ()
        """Replaced, never modified: the live view may read them at the same time."""
        self._solved: tuple[object, Array, Array] | None = None
        """The samples that were solved, with their mean and variance."""

    def __len__(self) -> int:
        return len(self._samples)

    @property
    def mean(self) -> Array:
        return self._solve()[0]

    @property
    def variance(self) -> Array:
        return self._solve()[1]

    def observe(self, slot: int, position: float, reward: float) -> None:
        """Add the reward of a slot; of more than w samples the oldest is dropped.

        Late, repeated and impossible rewards are handled as in `WindowedPosterior`.
        """
        if not isfinite(reward):
            raise ValueError(f"the reward of slot {slot} is {reward!r}, not a finite number")
        samples = self._samples
        place = bisect_left(samples, slot, key=itemgetter(0))
        if place < len(samples) and samples[place][0] == slot:
            return
        added = (*samples[:place], (slot, position, reward), *samples[place:])
        self._samples = added[-self.window :]

    def withdraw(self, slot: int) -> None:
        """Remove the sample of a slot, as if it had never arrived; no effect without one."""
        self._samples = tuple(sample for sample in self._samples if sample[0] != slot)

    def _solve(self) -> tuple[Array, Array]:
        """Mean and variance, computed once for the same samples."""
        samples, solved = self._samples, self._solved
        if solved is None or solved[0] is not samples:
            solved = self._solved = samples, *self._solution(samples)
        return solved[1:]

    def _solution(self, samples: Sequence[tuple[int, float, float]]) -> tuple[Array, Array]:
        if not samples:
            return np.full(self.grid.size, self.offset), np.full(self.grid.size, self.sigma_f2)
        positions = np.array([position for _, position, _ in samples])
        rewards = np.array([reward for _, _, reward in samples]) - self.offset
        gram = self.sigma_f2 * self.kernel(positions[:, None] - positions[None, :])
        gram[np.diag_indices_from(gram)] += self._ridge
        cross = self.sigma_f2 * self.kernel(positions[:, None] - self.grid.points[None, :])
        factor = cholesky(gram, lower=True, overwrite_a=True, check_finite=False)
        mean = cho_solve((factor, True), rewards, check_finite=False) @ cross + self.offset
        whitened = solve_triangular(factor, cross, lower=True, check_finite=False)
        return mean, self.sigma_f2 - np.einsum("ij,ij->j", whitened, whitened)
