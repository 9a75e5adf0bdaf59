"""The estimate of WGP-UCB: least squares in feature space with the weights η^(t − s).

With k = φ·φ, the weights w_s = η^(−s) and the regularisation λ_t = λ·η^(−t), λ = ϱ/σ_f², without
their common factor η^(−t):

    A = λI + Σ η^(t − s)·φφᵀ,   Ã = λI + Σ η^(2(t − s))·φφᵀ,   b = Σ η^(t − s)·φ·r,
    μ = φᵀA⁻¹b,   σ² = ϱ·φᵀA⁻¹ÃA⁻¹φ.

The variance of weighted least squares needs the squares of the weights, hence the second matrix.
Both decay by themselves, so a slot costs O(G·r²), however many samples there are. With η = 1 this
is the posterior of a Gaussian process. Late rewards get the weight of their slot. A reward can be
withdrawn for `REMEMBERED` slots.
"""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, cholesky

from macontrol.controller.policies.features import KernelFeatures

Array = NDArray[np.float64]

REMEMBERED = 1000
"""Slots for which samples are stored."""


class WeightedPosterior:
    """The weighted estimate; `mean` and `variance` are over the grid."""

    def __init__(
        self,
        features: KernelFeatures,
        *,
        sigma_f2: float,
        ridge: float,
        retention: float,
        offset: float = 0.0,
    ) -> None:
        self.grid = features.grid
        self.sigma_f2 = sigma_f2
        self.offset = offset
        """The prior mean."""
        self._features = features
        self._ridge = ridge
        self._retention = retention
        rank = features.rank
        self._regularisation = ridge / sigma_f2 * np.eye(rank)
        self._sum = np.zeros((rank, rank))
        self._squared_sum = np.zeros((rank, rank))
        self._rewards = np.zeros(rank)
        self._slot: int | None = None
        """The slot of the weights."""
        self._samples: dict[int, tuple[Array, float]] = {}
        self.mean: Array = np.full(self.grid.size, offset)
        self.variance: Array = np.full(self.grid.size, sigma_f2)

    def observe(self, slot: int, position: float, reward: float) -> None:
        """Add the reward of a slot. Of several rewards for one slot the first one counts."""
        if not isfinite(reward):
            raise ValueError(f"the reward of slot {slot} is {reward!r}, not a finite number")
        self._advance(slot)
        if slot not in self._samples and slot > self._now - REMEMBERED:
            self._samples[slot] = self._features.at(position), reward - self.offset
            self._add(slot, 1.0)

    def withdraw(self, slot: int) -> None:
        """Remove the sample of a slot, as if it had never arrived; no effect without one."""
        if slot in self._samples:
            self._add(slot, -1.0)
            del self._samples[slot]

    def age_to(self, slot: int) -> None:
        """Set mean and variance to those with the weights of this slot."""
        self._advance(slot)
        on_grid = self._features.on_grid
        factor: Any = cho_factor(
            self._sum + self._regularisation, lower=True, overwrite_a=True, check_finite=False
        )
        self.mean = on_grid @ cho_solve(factor, self._rewards, check_finite=False) + self.offset
        root = cholesky(
            self._squared_sum + self._regularisation,
            lower=True,
            overwrite_a=True,
            check_finite=False,
        )
        spread = on_grid @ cho_solve(factor, root, overwrite_b=True, check_finite=False)
        self.variance = self._ridge * np.einsum("ij,ij->i", spread, spread)

    @property
    def _now(self) -> int:
        return 0 if self._slot is None else self._slot

    def _advance(self, slot: int) -> None:
        """Let the weights decay to a slot."""
        if self._slot is None:
            self._slot = slot
        if slot > self._slot:
            weight = self._retention ** (slot - self._slot)
            self._sum *= weight
            self._squared_sum *= weight * weight
            self._rewards *= weight
            for old in range(self._slot - REMEMBERED + 1, slot - REMEMBERED + 1):
                self._samples.pop(old, None)
            self._slot = slot

    def _add(self, slot: int, sign: float) -> None:
        feature, reward = self._samples[slot]
        weight = self._retention ** (self._now - slot)
        outer = np.multiply.outer(feature, feature)
        self._sum += sign * weight * outer
        self._squared_sum += sign * weight * weight * outer
        self._rewards += sign * weight * reward * feature
