"""What is believed about the reward: the windowed posterior mean and variance on the whole grid.

Equations posterior_mean and posterior_var, solved in feature space: with k = φ·φ and r features,

    A = ϱI + Σ φφᵀ over the window,   μ = ΦA⁻¹ Σ φr,   σ² = ϱ·diag(ΦA⁻¹Φᵀ),

so one sample in and one out is a rank-one update and a rank-one downdate of an r×r Cholesky
problem, whatever the window. Three things keep rounding from ever adding up:

* the factor is taken anew from A in every slot (r is about thirty), never updated itself;
* a second A is summed up beside the first from new samples only, and takes its place as soon as
  it holds the whole window, so no A has forgotten more than two windows of samples;
* the grid's variance is carried by rank-one corrections, while a small slice of it is computed
  anew every few slots; if the two ever disagree, everything is summed up again from the window.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass
from math import isfinite
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from macontrol.controller.features import KernelFeatures

Array = NDArray[np.float64]

# The grid's variance is computed anew slice by slice: this many slices, one in so many slots.
_SLICES = 64
_SLOTS_PER_SLICE = 8
# A carried variance off by more than this share of sigma_f^2 means rounding has grown.
_DISAGREEMENT = 1e-9


@dataclass(slots=True)
class _Sample:
    slot: int
    feature: Array
    reward: float
    generation: int


class WindowedPosterior:
    """The posterior of the w most recent samples; `mean` and `variance` are over the grid."""

    def __init__(
        self, features: KernelFeatures, *, sigma_f2: float, ridge: float, window: int
    ) -> None:
        if not sigma_f2 > 0 or not ridge > 0 or window < 1:
            raise ValueError("a posterior needs sigma_f2 > 0, ridge > 0 and window >= 1")
        self.features = features
        self.sigma_f2 = sigma_f2
        self.window = window
        self.refactorings = 0
        size = features.grid.size
        self.grid = features.grid
        self._relative_ridge = ridge / sigma_f2
        self._ridge = ridge
        self._samples: deque[_Sample] = deque()
        self._transposed: Array = np.ascontiguousarray(features.on_grid.T)
        self.mean: Array = np.zeros(size)
        self.variance: Array = np.empty(size)
        self._gain: Array = np.empty(size)
        self._slice_length = -(-size // _SLICES)
        self._slice_start = 0
        self._observed = 0
        self._generation = 0
        self._sum, self._moment = self._empty_sums()
        self._fresh_sum, self._fresh_moment = self._empty_sums()
        self._sum_again()

    def __len__(self) -> int:
        return len(self._samples)

    @property
    def slots(self) -> list[int]:
        """The slots whose samples the window holds, oldest first."""
        return [sample.slot for sample in self._samples]

    def observe(self, slot: int, position: float, reward: float) -> None:
        """Take in the reward of a slot; the oldest sample leaves once the window is full.

        A late reward takes its place by slot, and is dropped if the window has moved past it.
        """
        if not isfinite(reward):
            raise ValueError(f"the reward of slot {slot} is {reward!r}, not a finite number")
        samples = self._samples
        full = len(samples) == self.window
        if full and slot < samples[0].slot:
            return
        new = _Sample(slot, self.features.at(position), reward, self._generation)
        self.variance -= self._informed(new.feature)
        self._add(new, 1.0)
        if not samples or slot > samples[-1].slot:
            samples.append(new)
        else:
            samples.insert(bisect_left(samples, slot, key=attrgetter("slot")), new)
        if full:
            old = samples.popleft()
            self._add(old, -1.0)
            self._count_out(old)
            self._solve()
            self.variance += self._informed(old.feature)
        else:
            self._solve()
        self._observed += 1
        if self._observed % _SLOTS_PER_SLICE == 0:
            self._refresh_slice()

    def _informed(self, feature: Array) -> Array:
        """By how much a sample at this feature lowers the variance, over the grid."""
        solution, _ = lapack.dpotrs(self._factor, feature, lower=1)
        gain = np.dot(solution, self._transposed, out=self._gain)
        np.multiply(gain, gain, out=gain)
        gain *= self._ridge / (1.0 + float(feature @ solution))
        return gain

    def _solve(self) -> None:
        """Factor A, and set the mean from it."""
        self._factor, info = lapack.dpotrf(self._sum, lower=1, clean=0)
        if info != 0:  # rounding has eaten the ridge: the caller's sums are worth nothing
            raise ArithmeticError("the posterior's matrix is not positive definite")
        solution, _ = lapack.dpotrs(self._factor, self._moment, lower=1)
        np.dot(solution, self._transposed, out=self.mean)

    def _add(self, sample: _Sample, sign: float) -> None:
        """Add a sample to A and to Σφr (or take it away), and to the fresh sums if it is theirs."""
        feature, weighted = sample.feature, sign * sample.reward
        self._sum = blas.dsyr(sign, feature, lower=1, a=self._sum, overwrite_a=1)
        self._moment += weighted * feature
        if sample.generation == self._generation:
            self._fresh_sum = blas.dsyr(sign, feature, lower=1, a=self._fresh_sum, overwrite_a=1)
            self._fresh_moment += weighted * feature

    def _count_out(self, old: _Sample) -> None:
        """Note that a sample left; when only fresh ones are left, their sums take over."""
        if old.generation != self._generation:
            self._stale -= 1
            if self._stale == 0:
                self._sum, self._moment = self._fresh_sum, self._fresh_moment
                self._start_fresh_sums()

    def _start_fresh_sums(self) -> None:
        self._generation += 1
        self._stale = len(self._samples)
        self._fresh_sum, self._fresh_moment = self._empty_sums()

    def _empty_sums(self) -> tuple[Array, Array]:
        rank = self.features.rank
        return np.asfortranarray(np.eye(rank) * self._relative_ridge), np.zeros(rank)

    def _sum_again(self) -> None:
        """Sum A and Σφr up from the window, and compute mean and variance from them."""
        self._start_fresh_sums()
        self._sum, self._moment = self._empty_sums()
        for sample in self._samples:
            self._add(sample, 1.0)
        self._solve()
        self.variance[:] = self._exact_variance(slice(None))

    def _refresh_slice(self) -> None:
        """Compute the next slice of the variance anew; if it was far off, sum everything again."""
        start = self._slice_start
        part = slice(start, start + self._slice_length)
        self._slice_start = 0 if part.stop >= len(self.variance) else part.stop
        exact = self._exact_variance(part)
        carried = self.variance[part]
        off = np.abs(carried - exact).max()
        carried[:] = exact
        if off > _DISAGREEMENT * self.sigma_f2:
            self.refactorings += 1
            self._sum_again()

    def _exact_variance(self, part: slice) -> Array:
        whitened, _ = lapack.dtrtrs(self._factor, self._transposed[:, part], lower=1)
        variance: Array = self._ridge * np.einsum("ij,ij->j", whitened, whitened)
        return variance
