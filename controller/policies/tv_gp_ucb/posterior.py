"""The posterior of TV-GP-UCB: all samples, with the kernel k(x, x')·(1 − ε)^(|t − t'|/2).

This is the posterior of a reward that drifts as f_{t+1} = √(1 − ε)·f_t + √ε·g, with g a new draw of
the same process. With k = φ·φ and r features, f_t = φ·w_t, and the weights drift alike. So a Kalman
filter over the weights, with mean m and covariance C, has the posterior of all samples exactly:

    one slot later:  C ← (1 − ε)·C + ε·σ_f²·I,   m ← √(1 − ε)·m
    a sample at φ:   s = φᵀCφ + ϱ,   m ← m + Cφ·(r − φ·m)/s,   C ← C − Cφ(Cφ)ᵀ/s

A slot costs O(r² + G·r), however many samples there are. The variance over the grid is corrected by
the same rank-one terms; its rounding errors fade as old samples do.

A reward can be late, or be withdrawn. Then the filter goes back to a stored state before that slot
and takes the samples since then again. This is exact for at least `SNAPSHOTS − 1` times
`INTERVAL` samples; what is older is too late to arrive, or to be withdrawn.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from math import isfinite, sqrt
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from macontrol.controller.policies.features import KernelFeatures

Array = NDArray[np.float64]

INTERVAL = 64
"""Samples between stored states."""
SNAPSHOTS = 5


@dataclass(frozen=True, slots=True)
class _Sample:
    slot: int
    feature: Array
    reward: float
    """Less the offset."""


@dataclass(slots=True)
class _State:
    """The filter after slot `slot`."""

    slot: int
    mean: Array
    covariance: Array
    grid_variance: Array

    def copy(self) -> _State:
        return _State(
            self.slot, self.mean.copy(), self.covariance.copy(), self.grid_variance.copy()
        )


class DriftingPosterior:
    """The posterior of all samples; `mean` and `variance` are over the grid, for the next slot."""

    def __init__(
        self,
        features: KernelFeatures,
        *,
        sigma_f2: float,
        ridge: float,
        change_rate: float,
        offset: float = 0.0,
    ) -> None:
        self.grid = features.grid
        self.sigma_f2 = sigma_f2
        self.offset = offset
        """The prior mean."""
        self._features = features
        self._ridge = ridge
        self._change_rate = change_rate
        rank = features.rank
        first = _State(
            slot=-(10**9),
            mean=np.zeros(rank),
            covariance=sigma_f2 * np.eye(rank),
            grid_variance=np.full(self.grid.size, sigma_f2),
        )
        self._stored = [first]
        """States before some of the samples, oldest first."""
        self._samples: list[_Sample] = []
        """The samples after the oldest of them."""
        self._state = first.copy()
        self.mean: Array = np.full(self.grid.size, offset)
        self.variance: Array = first.grid_variance

    def observe(self, slot: int, position: float, reward: float) -> None:
        """Add the reward of a slot. Of several rewards for one slot the first one counts."""
        if not isfinite(reward):
            raise ValueError(f"the reward of slot {slot} is {reward!r}, not a finite number")
        sample = _Sample(slot, self._features.at(position), reward - self.offset)
        samples = self._samples
        if slot > self._state.slot:
            samples.append(sample)
            self._add(sample)
            if len(samples) % INTERVAL == 0:
                self._store()
            return
        place = bisect_left(samples, slot, key=attrgetter("slot"))
        is_known = place < len(samples) and samples[place].slot == slot
        if not is_known and slot > self._stored[0].slot:
            samples.insert(place, sample)
            self._replay(slot)

    def withdraw(self, slot: int) -> None:
        """Remove the sample of a slot, as if it had never arrived; no effect without one."""
        place = bisect_left(self._samples, slot, key=attrgetter("slot"))
        if place < len(self._samples) and self._samples[place].slot == slot:
            del self._samples[place]
            self._replay(slot)

    def age_to(self, slot: int) -> None:
        """Set mean and variance to those of the next slot, from all samples."""
        state = self._state
        kept = self._kept(slot + 1 - state.slot)
        self.mean = self._features.on_grid @ (sqrt(kept) * state.mean) + self.offset
        self.variance = kept * state.grid_variance + (1.0 - kept) * self.sigma_f2

    def _kept(self, slots: int) -> float:
        """(1 − ε)^slots; the first sample finds the prior, which does not change."""
        return float((1.0 - self._change_rate) ** max(slots, 0))

    def _add(self, sample: _Sample) -> None:
        """Predict the state of the sample's slot, and correct it by the sample."""
        state, feature = self._state, sample.feature
        kept = self._kept(sample.slot - state.slot)
        state.covariance *= kept
        state.covariance.flat[:: len(feature) + 1] += (1.0 - kept) * self.sigma_f2
        state.mean *= sqrt(kept)
        state.grid_variance *= kept
        state.grid_variance += (1.0 - kept) * self.sigma_f2
        gain = state.covariance @ feature
        spread = float(feature @ gain) + self._ridge
        state.mean += gain * ((sample.reward - float(feature @ state.mean)) / spread)
        gain /= sqrt(spread)
        state.covariance -= np.multiply.outer(gain, gain)
        state.grid_variance -= np.square(self._features.on_grid @ gain)
        state.slot = sample.slot

    def _store(self) -> None:
        """Store the state, and drop the samples that the oldest stored one contains."""
        self._stored.append(self._state.copy())
        if len(self._stored) > SNAPSHOTS:
            del self._stored[0]
            first = self._stored[0].slot
            self._samples = [sample for sample in self._samples if sample.slot > first]

    def _replay(self, slot: int) -> None:
        """Take the samples again from the last stored state before a slot."""
        while self._stored[-1].slot >= slot:
            self._stored.pop()
        self._state = self._stored[-1].copy()
        for sample in self._samples:
            if sample.slot > self._state.slot:
                self._add(sample)
