"""The posterior from the w×w Gram matrix, whose Cholesky factor follows the window.

For a ridge so small relative to sigma_f^2 that feature space loses digits: a solution for the
window's samples does not square the condition number of the features. With K + ϱI = RᵀR, R upper
triangular, and k the covariance of the samples with the grid,

    V = R⁻ᵀk,   b = R⁻ᵀr,   μ = Vᵀb,   σ² = σ_f² − diag(VᵀV).

A new sample is one more column of R and one more row of V and b. To drop a sample, its column is
deleted, and rotations make R triangular again; the same rotations of V and b keep all equations.
This costs O(w² + G·w) per slot instead of O(w³ + G·w²). Rotations are stable, and the part of R
that belongs to two samples leaves with them: no rounding error is older than the window. One per
slot, in turn, a sample, a grid point or all rewards are compared with RᵀR, RᵀV and Rᵀb; if they
disagree, everything is computed again from the window.

The samples are in the order of their arrival, which the equations do not depend on.
"""

from __future__ import annotations

from math import isfinite, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, qr_delete, solve_triangular
from scipy.linalg.blas import dtrsv

from macontrol.config.model.grid import Grid
from macontrol.controller.policies.kernel import StationaryKernel

Array = NDArray[np.float64]

# R and V give the kernel to about 1e-14 sigma_f^2; rounding errors are too large if it is off by
# this share. The rounding errors of Rᵀb are of the size of b, which may be far larger than r.
_DISAGREEMENT = 1e-12
_POINTS_PER_SLOT = 16


class GramPosterior:
    """Equations posterior_mean and posterior_var; `mean` and `variance` are over the grid."""

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
        self.refactorings = 0
        self.corrections = 0
        """How often the followed variance was wrong."""
        self._ridge = ridge
        self._count = self._turn = 0
        # The covariance with the whole grid of a sample on grid point i: from G − 1 − i on.
        both_sides = np.concatenate((-grid.points[:0:-1], grid.points))
        self._table: Array = sigma_f2 * kernel(both_sides)
        # Slot, position and reward (less the offset) of each sample, in the order of arrival.
        self._samples: Array = np.zeros((3, window))
        self._slots, self._positions, self._rewards = self._samples
        # R, with ones on the rest of the diagonal: a solution with the whole is one with R.
        self._factor: Array = np.asfortranarray(np.eye(window))
        # The rows of V and b as columns: the grid points, the reward, and unused rows, because
        # qr_delete takes a taller matrix than R only.
        rows = max(grid.size + 1, window + 1)
        self._whitened: Array = np.zeros((rows, window), order="F")
        # diag(VᵀV) follows V; a few grid points per slot, in turn, are computed directly.
        self._explained: Array = np.zeros(grid.size)
        self.mean: Array
        self.variance: Array
        self._estimate()

    def __len__(self) -> int:
        return self._count

    @property
    def slots(self) -> list[int]:
        """The slots of the samples in the window, oldest first."""
        return sorted(int(slot) for slot in self._slots[: self._count])

    def observe(self, slot: int, position: float, reward: float) -> None:
        """Add the reward of a slot; the oldest sample is dropped once the window is full.

        Late, repeated and impossible rewards are handled as in `WindowedPosterior`.
        """
        if not isfinite(reward):
            raise ValueError(f"the reward of slot {slot} is {reward!r}, not a finite number")
        slots = self._slots[: self._count]
        if (slots == slot).any():
            return
        if len(slots) == self.window:
            oldest = int(slots.argmin())
            if slot < slots[oldest]:
                return
            self._drop(oldest)
        self._append(slot, position, reward - self.offset)
        self._finish()

    def withdraw(self, slot: int) -> None:
        """Remove the sample of a slot, as if it had never arrived; no effect without one."""
        (found,) = np.nonzero(self._slots[: self._count] == slot)
        if len(found):
            self._drop(int(found[0]))
            self._finish()

    def _append(self, slot: int, position: float, reward: float) -> None:
        """Add a column to R and a row to V and b."""
        count, size = self._count, self.grid.size
        column = np.zeros(self.window)
        column[:count] = self.sigma_f2 * self.kernel(self._positions[:count] - position)
        column = dtrsv(self._factor, column, trans=1)
        rest = self.sigma_f2 + self._ridge - float(column.dot(column))
        self._samples[:, count] = slot, position, reward
        self._count += 1
        if not rest > 0:
            self._factor_again()
            return
        row = self._whitened[:, :count].dot(column[:count])
        np.subtract(self._with_grid(position), row[:size], out=row[:size])
        row[size] = reward - row[size]
        self._factor[:count, count] = column[:count]
        self._factor[count, count] = pivot = sqrt(rest)
        row /= pivot
        self._whitened[:, count] = row
        self._explained += np.square(row[:size])

    def _drop(self, place: int) -> None:
        """Delete a column of R, and rotate R, V and b so that R is triangular again."""
        count = self._count
        whitened, factor = qr_delete(  # in place, unless it needs copies
            self._whitened[:, :count],
            self._factor[:count, :count],
            place,
            which="col",
            overwrite_qr=True,
            check_finite=False,
        )
        # What was rotated out is left in the last column.
        self._explained -= np.square(self._whitened[: self.grid.size, count - 1])
        self._whitened[:, : count - 1] = whitened
        self._factor[: count - 1, : count - 1] = factor
        self._factor[:, count - 1] = 0.0
        self._factor[count - 1] = 0.0
        self._factor[count - 1, count - 1] = 1.0
        self._samples[:, place : count - 1] = self._samples[:, place + 1 : count]
        self._count = count - 1

    def _finish(self) -> None:
        """Set mean and variance from R, V and b, which are computed again if they are wrong."""
        if self._count and not self._agrees():
            self._factor_again()
        self._estimate()

    def _estimate(self) -> None:
        """Replace mean and variance: the live view may read the previous ones at the same time."""
        count, size = self._count, self.grid.size
        whitened = self._whitened[:, :count]
        first = self._turn * _POINTS_PER_SLOT % size
        self._explain(slice(first, first + _POINTS_PER_SLOT))
        self.mean = whitened.dot(whitened[size])[:size] + self.offset
        self.variance = self.sigma_f2 - self._explained

    def _explain(self, points: slice) -> None:
        """Compute diag(VᵀV) at some points; at all of them, if it was wrong there."""
        rows = self._whitened[: self.grid.size, : self._count]
        exact = np.einsum("ij,ij->i", rows[points], rows[points])
        if np.abs(self._explained[points] - exact).max() > _DISAGREEMENT * self.sigma_f2:
            self.corrections += 1
            exact, points = np.einsum("ij,ij->i", rows, rows), slice(None)
        self._explained[points] = exact

    def _with_grid(self, position: float) -> Array:
        """The covariance of a sample with the whole grid."""
        index, size = self.grid.index(position), self.grid.size
        if index is None:
            return self.sigma_f2 * self.kernel(self.grid.points - position)
        return self._table[size - 1 - index : 2 * size - 1 - index]

    def _agrees(self) -> bool:
        """Whether RᵀR, RᵀV or Rᵀb is the Gram matrix, k or r, at one place of it."""
        count, size = self._count, self.grid.size
        number, kind = divmod(self._turn, 3)
        self._turn += 1
        positions, factor = self._positions[:count], self._factor[:count, :count]
        scale = self.sigma_f2
        if kind == 0:
            sample = number % count
            column = factor[:, sample]
            expected = self.sigma_f2 * self.kernel(positions - positions[sample])
            expected[sample] += self._ridge
        elif kind == 1:
            point = number % size
            column = self._whitened[point, :count]
            expected = self.sigma_f2 * self.kernel(positions - self.grid.points[point])
        else:
            column, expected = self._whitened[size, :count], self._rewards[:count]
            scale = sqrt(self.sigma_f2) * float(np.abs(column).max())
        error = float(np.abs(factor.T.dot(column) - expected).max())
        return error <= _DISAGREEMENT * scale

    def _factor_again(self) -> None:
        """Compute R, V and b from the samples."""
        self.refactorings += 1
        count, size = self._count, self.grid.size
        positions = self._positions[:count]
        gram = self.sigma_f2 * self.kernel(positions[:, None] - positions)
        gram[np.diag_indices_from(gram)] += self._ridge
        factor = cholesky(gram, check_finite=False)
        cross = self.sigma_f2 * self.kernel(positions[:, None] - self.grid.points)
        right_sides = np.column_stack((cross, self._rewards[:count]))
        whitened = solve_triangular(factor, right_sides, trans=1, check_finite=False)
        self._factor[:count, :count] = factor
        self._whitened[: size + 1, :count] = whitened.T
        rows = whitened[:, :size]
        self._explained = np.einsum("ij,ij->j", rows, rows)
