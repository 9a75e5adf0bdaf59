"""The estimate of the reward: posterior mean and variance over the window, on the whole grid.

Equations posterior_mean and posterior_var, solved in feature space: with k = φ·φ and r features,

    A = ϱI + Σ φφᵀ over the window,   μ = ΦA⁻¹ Σ φr,   σ² = ϱ·diag(ΦA⁻¹Φᵀ),

so one sample in and one out is a rank-one update and a rank-one downdate of the r×r normal matrix
A: the cost does not depend on the window. Three measures prevent that rounding errors add up:

* solutions are those of A itself (`solver.py`): its Cholesky factor is computed in every slot, or
  on a long rail, where r is hundreds, an inverse follows A and each solution is refined;
* a second A is summed from new samples only, and replaces the first as soon as it has the whole
  window, so no A has lost more than two windows of samples;
* the grid's variance is updated by rank-one corrections, and one point of it per slot, in turn, is
  computed directly; if the two disagree, everything is summed again from the window.

At these sizes a call costs more than its arithmetic, so there are few calls. A sample is one vector
(φ, r), and one rank-one update of one matrix updates both sums,

    [ A     Σφr ]
    [ Σφrᵀ   ∞  ],

whose infinite corner (1e200 in practice) removes the last row: a solution with the whole matrix is
one with A, for any last entry of the right side. All changes of a slot on the grid then come from
one product of four rows with Φᵀ.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass
from math import isfinite, sqrt
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsyr
from scipy.linalg.lapack import dtrtrs

from macontrol.controller.policies.expansion import Expansion
from macontrol.controller.policies.features import KernelFeatures
from macontrol.controller.policies.solver import factor_of, make_solver

Array = NDArray[np.float64]

# Rounding errors are too large if an updated variance is off by this share of sigma_f^2.
_DISAGREEMENT = 1e-9
# Far above any sum of squared rewards, and far from overflow and underflow in a division.
_INFINITE = 1e200


@dataclass(slots=True)
class _Sample:
    slot: int
    vector: Array
    """(φ, r − offset)"""
    generation: int


class WindowedPosterior:
    """The posterior of the w most recent samples; `mean` and `variance` are over the grid."""

    def __init__(
        self,
        features: KernelFeatures,
        *,
        sigma_f2: float,
        ridge: float,
        window: int,
        offset: float = 0.0,
    ) -> None:
        if not sigma_f2 > 0 or not ridge > 0 or window < 1:
            raise ValueError("a posterior needs sigma_f2 > 0, ridge > 0 and window >= 1")
        self.features = features
        self.grid = features.grid
        self.sigma_f2 = sigma_f2
        self.window = window
        self.offset = offset
        """The prior mean: the samples are rewards less this, and `mean` has it again."""
        self.refactorings = 0
        self._ridge = ridge
        self._samples: deque[_Sample] = deque()
        order, size = features.rank + 1, features.grid.size
        self._table: Array = np.zeros((size, order))
        self._table[:, :-1] = features.on_grid
        self._expansion = Expansion(features, unused=1)
        self._no_sample: Array = np.zeros(order)
        self._position, self._index = self.grid.points.item(0), self.grid.index(0.0)
        # Columns: (unused), the sample that leaves, Σφr, the grid point to check. See _solve.
        self._right_sides: Array = np.zeros((order, 4), order="F")
        self._mix: Array = np.diag([0.0, 0.0, 1.0, 0.0])
        self._product: Array = np.zeros((4, size))
        self._more, self._less, self.mean = self._product[:3]
        self.variance: Array = np.zeros(size)
        self._point = 0
        self._generation = 0
        self._sum: Array
        self._fresh_sum: Array
        self.solver = make_solver(order)
        self._is_followed = self.solver.follows
        self._sum_again()

    def __len__(self) -> int:
        return len(self._samples)

    @property
    def slots(self) -> list[int]:
        """The slots of the samples in the window, oldest first."""
        return [sample.slot for sample in self._samples]

    def observe(self, slot: int, position: float, reward: float) -> None:
        """Add the reward of a slot; the oldest sample is dropped once the window is full.

        A late reward is inserted by its slot, and dropped if it is older than the window. A slot
        has one reward: the first one counts, another one for the same slot is dropped.
        """
        if not isfinite(reward):
            raise ValueError(f"the reward of slot {slot} is {reward!r}, not a finite number")
        samples = self._samples
        full = len(samples) == self.window
        place = len(samples)
        if samples and slot <= samples[-1].slot:
            place = bisect_left(samples, slot, key=attrgetter("slot"))
            if samples[place].slot == slot or (full and place == 0):
                return
        new = _Sample(slot, self._vector(position, reward), self._generation)
        entering = self.solver.solve(new.vector)
        effect = self._effect(new.vector, entering)
        samples.insert(place, new)
        self._add(new, 1.0)
        leaving = self._no_sample
        if full:
            old = samples.popleft()
            self._add(old, -1.0)
            self._count_out(old)
            leaving = old.vector
        self._check_point(self._solve(entering, effect, leaving))

    def withdraw(self, slot: int) -> None:
        """Remove the sample of a slot, as if it had never arrived; no effect without one."""
        samples = self._samples
        place = bisect_left(samples, slot, key=attrgetter("slot"))
        if place == len(samples) or samples[place].slot != slot:
            return
        old = samples[place]
        del samples[place]
        self._add(old, -1.0)
        self._count_out(old)
        self._check_point(self._solve(self._no_sample, 0.0, old.vector))

    def _vector(self, position: float, reward: float) -> Array:
        """(φ, r − offset)"""
        reward -= self.offset
        if position != self._position:
            self._position, self._index = position, self.grid.index(position)
        index = self._index
        if index is None:
            return np.append(self.features.at(position), reward)
        vector: Array = self._table[index].copy()
        vector[-1] = reward
        return vector

    def _effect(self, vector: Array, solution: Array) -> float:
        """The e for which one more sample at φ lowers σ² by (e·Φs)², s = A⁻¹φ."""
        return sqrt(self._ridge / (1.0 + float(vector.dot(solution))))

    def _solve(self, entering: Array, effect: float, leaving: Array) -> Array:
        """Factor A, set the mean, and correct the variance for the new and the dropped sample.

        The effect of a sample is computed with an A without it: `entering` is A⁻¹φ of the new
        sample before it was added, with its effect; `leaving` is the dropped sample, solved for
        here. With b the dropped one's solution and effect times Φ, and a the new one's, the
        variance changes by b² − a² = (b + a)(b − a): two rows of the product; the third row is the
        mean. Return A⁻¹φ of the grid point to check.
        """
        self.solver.set_matrix(self._sum)
        right_sides, mix = self._right_sides, self._mix
        right_sides[:, 1] = leaving
        right_sides[:-1, 2] = self._sum[:-1, -1]
        right_sides[:, 3] = self._table[self._point]
        solutions = self.solver.solve(right_sides)
        solutions[:, 0] = entering
        mix[0, 0], mix[1, 0] = effect, -effect
        mix[0, 1] = mix[1, 1] = self._effect(leaving, solutions[:, 1])
        self._expansion.fill(mix.dot(solutions.T), self._product)
        if self.offset:
            self.mean += self.offset
        self.variance += np.multiply(self._more, self._less, out=self._more)
        to_check: Array = solutions[:, 3]
        return to_check

    def _check_point(self, solution: Array) -> None:
        """Set the exact variance of a grid point; sum everything again if it was far off."""
        point, variance = self._point, self.variance
        self._point = (point + 1) % len(variance)
        exact = self._ridge * float(self._table[point].dot(solution))
        off = abs(variance.item(point) - exact)
        variance[point] = exact
        if off > _DISAGREEMENT * self.sigma_f2:
            self.refactorings += 1
            self._sum_again()

    def _add(self, sample: _Sample, sign: float) -> None:
        """Add a sample to the sums (or subtract it), and to the fresh sums if it is in them."""
        if self._is_followed:
            self.solver.change(sign, sample.vector)
        self._sum = dsyr(sign, sample.vector, a=self._sum, overwrite_a=1)
        if sample.generation == self._generation:
            self._fresh_sum = dsyr(sign, sample.vector, a=self._fresh_sum, overwrite_a=1)

    def _count_out(self, old: _Sample) -> None:
        """Note a dropped sample; when only fresh ones are left, their sums replace the others."""
        if old.generation != self._generation:
            self._stale -= 1
        if self._stale == 0:
            self._sum = self._fresh_sum
            self._start_fresh_sums()

    def _start_fresh_sums(self) -> None:
        self._generation += 1
        self._stale = len(self._samples)
        self._fresh_sum = self._empty_sums()

    def _empty_sums(self) -> Array:
        diagonal = np.full(self.features.rank + 1, self._ridge / self.sigma_f2)
        diagonal[-1] = _INFINITE
        return np.asfortranarray(np.diag(diagonal))

    def _sum_again(self) -> None:
        """Sum A and Σφr from the window, and compute mean and variance from them."""
        self._start_fresh_sums()
        self._sum = self._empty_sums()
        for sample in self._samples:
            self._sum = dsyr(1.0, sample.vector, a=self._sum, overwrite_a=1)
        self.solver.start(self._sum)
        self._solve(self._no_sample, 0.0, self._no_sample)
        whitened, _ = dtrtrs(factor_of(self._sum), self._table.T, trans=1)
        self.variance[:] = self._ridge * np.einsum("ij,ij->j", whitened, whitened)
