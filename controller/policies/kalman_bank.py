"""An estimate for a world that drifts: a bank of Kalman filters, each for another speed of it.

The reward along the rail is Φw: the features of the kernel (K = ΦΦᵀ), and weights of variance σ_f².
Every weight drifts as a mean-reverting process with the time constant τ of the filter. With
d = e^(−1/τ), a slot and a reward r at x in it, φ = φ(x), are

    m ← d·m,   C ← d²C + (1 − d²)σ_f²I,
    s = φᵀCφ + ϱ,   m ← m + Cφ(r − φᵀm)/s,   C ← C − CφφᵀC/s.

The evidence of a filter is that of its predictions, e ← γe + ln N(r; φᵀm, s). Of K filters each
has the share p = (1 − ε)·exp e/Σ exp e + ε/K: rewards change less at a good place than elsewhere,
so the evidence alone favours slow filters. The estimate is the mixture of the filters.

The bank keeps what is learned, L = σ_f²I − C, so that a slot is L ← d²L and a reward adds CφφᵀC/s
to it; the same on the grid, where diag(ΦLΦᵀ) is the variance less than before the first reward.

Unlike a window, a filter forgets nothing at once, so rounding errors decay with d² and nothing must
be summed again. A late or withdrawn reward changes what came after it: the bank keeps checkpoints
and repeats the slots since, with the same operations in the same order.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from macontrol.controller.policies.expansion import Expansion
from macontrol.controller.policies.features import KernelFeatures

Array = NDArray[np.float64]

_CHECKPOINT_SAMPLES = 16
"""Samples from one checkpoint to the next: at most as many are repeated for a late reward."""


@dataclass(slots=True)
class _Sample:
    slot: int
    features: Array
    reward: float
    """less the prior mean"""


@dataclass(slots=True)
class _State:
    """All filters after a slot; the first axis of an array is the filter."""

    slot: int | None
    """None: before the first reward, when a filter knows nothing in any slot"""
    weights: Array
    learned: Array
    """L = σ_f²I − C"""
    on_grid: Array
    """diag(ΦLΦᵀ)"""
    evidence: Array

    def copy(self) -> _State:
        arrays = (self.weights, self.learned, self.on_grid, self.evidence)
        return _State(self.slot, *(array.copy() for array in arrays))


class KalmanBank:
    """The filters; `mean` and `variance` are those of their mixture, over the grid."""

    def __init__(
        self,
        features: KernelFeatures,
        *,
        time_constants: Sequence[float],
        sigma_f2: float,
        noise_variance: float,
        memory: float,
        doubt: float,
        history: int,
        offset: float = 0.0,
    ) -> None:
        if not sigma_f2 > 0 or not noise_variance > 0:
            raise ValueError("a filter needs sigma_f2 > 0 and noise_variance > 0")
        self.features = features
        self.grid = features.grid
        self.sigma_f2 = sigma_f2
        self.offset = offset
        """The prior mean: the filters see rewards less this, and `mean` has it again."""
        self.decay: Array = np.exp(-1.0 / np.asarray(time_constants, dtype=np.float64))
        """d of each filter."""
        self._noise_variance = noise_variance
        self._memory = memory
        self._doubt = doubt
        self._history = history
        count, rank, size = len(self.decay), features.rank, features.grid.size
        self._expansion = Expansion(features)
        self._means: Array = np.empty((count, size))
        self._squares: Array = np.empty((count, size))
        self._outer: Array = np.empty((count, rank, rank))
        self._state = _State(
            None,
            np.zeros((count, rank)),
            np.zeros((count, rank * rank)),
            np.zeros((count, size)),
            np.zeros(count),
        )
        self._samples: list[_Sample] = []
        self._checkpoints: deque[_State] = deque([self._state.copy()])
        self._since_checkpoint = 0

    # -- What is known ------------------------------------------------------------------------

    @property
    def shares(self) -> Array:
        """p: the share of each filter in the mixture."""
        evidence = self._state.evidence
        shares: Array = np.exp(evidence - evidence.max())
        shares *= (1.0 - self._doubt) / shares.sum()
        shares += self._doubt / len(shares)
        return shares

    @property
    def means(self) -> Array:
        """Φm of each filter: its mean over the grid, less the prior mean; until the next call."""
        self._expansion.fill(self._state.weights, self._means)
        return self._means

    @property
    def mean(self) -> Array:
        mean: Array = self.shares.dot(self._own_means())
        mean += self.offset
        return mean

    @property
    def deviations(self) -> Array:
        """σ of each filter over the grid."""
        deviations = self.sigma_f2 - self._state.on_grid
        np.maximum(deviations, 0.0, out=deviations)
        return np.sqrt(deviations, out=deviations)

    @property
    def variance(self) -> Array:
        """That of the mixture: that of the filters, and of what they disagree about."""
        shares, means = self.shares, self._own_means()
        second = np.square(means)
        second -= self._state.on_grid
        variance: Array = shares.dot(second)
        variance += self.sigma_f2
        variance -= np.square(shares.dot(means))
        return np.maximum(variance, 0.0, out=variance)

    def _own_means(self) -> Array:
        """`means` in memory of its own: another thread may read the estimate during a decision."""
        means = np.empty_like(self._means)
        self._expansion.fill(self._state.weights, means)
        return means

    # -- Rewards ------------------------------------------------------------------------------

    def observe(self, slot: int, position: float, reward: float) -> None:
        """Add the reward of a slot; one that comes late counts as if it had come in its slot.

        A slot has one reward: the first one counts. A reward that is older than the history is
        dropped.
        """
        if not isfinite(reward):
            raise ValueError(f"the reward of slot {slot} is {reward!r}, not a finite number")
        sample = _Sample(slot, self.features.at(position), reward - self.offset)
        samples, now = self._samples, self._state.slot
        if not samples or slot > samples[-1].slot:
            place = len(samples)
        else:
            place = bisect_left(samples, slot, key=attrgetter("slot"))
            if samples[place].slot == slot:
                return
        first = self._checkpoints[0].slot
        if first is not None and slot <= first:
            return
        samples.insert(place, sample)
        if now is None or slot > now or (slot == now and place == len(samples) - 1):
            self._take(sample)
        else:
            self._repeat_from(slot)

    def withdraw(self, slot: int) -> None:
        """Remove the reward of a slot, as if it had never arrived; no effect without one."""
        place = bisect_left(self._samples, slot, key=attrgetter("slot"))
        if place < len(self._samples) and self._samples[place].slot == slot:
            del self._samples[place]
            self._repeat_from(slot)

    def advance(self, slot: int) -> None:
        """Let the world drift until a slot, as far as the last reward is older."""
        state = self._state
        if state.slot is None or slot <= state.slot:
            return
        slots = slot - state.slot
        decay = self.decay if slots == 1 else self.decay**slots
        state.weights *= decay[:, None]
        decay = np.square(decay)[:, None]
        state.learned *= decay
        state.on_grid *= decay
        state.slot = slot

    def _take(self, sample: _Sample) -> None:
        """The update by one reward, in its slot."""
        state = self._state
        if state.slot is None:
            state.slot = sample.slot
        self.advance(sample.slot)
        features, weights = sample.features, state.weights
        count, rank = weights.shape
        known = state.learned.reshape(-1, rank).dot(features).reshape(count, rank)
        gain = np.subtract(self.sigma_f2 * features, known, out=known)
        scale = gain.dot(features) + self._noise_variance
        error = sample.reward - weights.dot(features)
        root = np.sqrt(scale)
        error /= root
        gain /= root[:, None]
        state.evidence *= self._memory
        state.evidence -= 0.5 * np.square(error) + np.log(root)
        weights += gain * error[:, None]
        np.multiply(gain[:, :, None], gain[:, None, :], out=self._outer)
        state.learned += self._outer.reshape(count, -1)
        self._expansion.fill(gain, self._squares)
        state.on_grid += np.multiply(self._squares, self._squares, out=self._squares)
        self._keep_checkpoint()

    def _keep_checkpoint(self) -> None:
        """Copy the state now and then, and drop what is older than the history."""
        self._since_checkpoint += 1
        if self._since_checkpoint < _CHECKPOINT_SAMPLES:
            return
        self._since_checkpoint = 0
        kept, now = self._checkpoints, self._state.slot
        assert now is not None
        kept.append(self._state.copy())
        while len(kept) > 1 and (second := kept[1].slot) is not None:
            if second > now - self._history:
                break
            kept.popleft()
            self._samples = [sample for sample in self._samples if sample.slot > second]

    def _repeat_from(self, slot: int) -> None:
        """Compute the state again from the last checkpoint before a slot."""
        now, kept = self._state.slot, self._checkpoints
        while (before := kept[-1].slot) is not None and before >= slot:
            kept.pop()
        self._state = kept[-1].copy()
        self._since_checkpoint = 0
        for sample in list(self._samples):
            if before is None or sample.slot > before:
                self._take(sample)
        if now is not None:
            self.advance(now)
