"""The estimate of ET-GP-UCB: all samples since the last one that did not fit.

In slot t after a reset, the new sample is a surprise if

    |r − μ(x)| > √ρ_t·σ(x) + w̄_t,   ρ_t = 2·ln(2π_t/δ_B),   w̄_t² = 2·σ_ε²·ln(2π_t/δ_B),

with π_t = π²t²/6. If the reward does not change, this happens with probability δ_B at most. Then
all samples but the new one are dropped, and t begins again. A sample is examined when the next
decision is due, so that rewards are taken in the order of their slots, and one that is withdrawn
before then resets nothing. Rewards from before a reset are dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite, log, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from macontrol.config.model.grid import Grid
from macontrol.controller.policies.policy import Posterior

Array = NDArray[np.float64]


class ResettingPosterior:
    """The estimate since the last reset; `mean` and `variance` are over the grid."""

    def __init__(
        self, empty: Callable[[], Posterior], *, noise_std: float, false_alarms: float
    ) -> None:
        """`empty` makes an estimate without samples."""
        self._empty = empty
        self._noise_std = noise_std
        self._false_alarms = false_alarms
        self._since = empty()
        self._reset_slot = 0
        self._waiting: dict[int, tuple[float, float]] = {}
        self.resets = 0

    @property
    def grid(self) -> Grid:
        return self._since.grid

    @property
    def mean(self) -> Array:
        return self._since.mean

    @property
    def variance(self) -> Array:
        return self._since.variance

    def observe(self, slot: int, position: float, reward: float) -> None:
        """Add the reward of a slot. That of the survey, before slot 1, is not examined."""
        if not isfinite(reward):
            raise ValueError(f"the reward of slot {slot} is {reward!r}, not a finite number")
        if slot < 1:
            self._since.observe(slot, position, reward)
        else:
            self._waiting.setdefault(slot, (position, reward))

    def withdraw(self, slot: int) -> None:
        """Remove the sample of a slot; a reset that it caused stays."""
        if self._waiting.pop(slot, None) is None:
            self._since.withdraw(slot)

    def age_to(self, slot: int) -> None:
        """Examine and take the samples that are new."""
        for each in sorted(self._waiting):
            position, reward = self._waiting[each]
            if each < self._reset_slot:
                continue
            if self._is_surprise(each, position, reward):
                self._since, self._reset_slot = self._empty(), each
                self.resets += 1
            self._since.observe(each, position, reward)
        self._waiting.clear()

    def _is_surprise(self, slot: int, position: float, reward: float) -> bool:
        grid = self.grid
        t = max(slot - self._reset_slot, 1)
        level = sqrt(2.0 * log(2.0 * (pi * t) ** 2 / 6.0 / self._false_alarms))
        variance = max(grid.interpolate(self.variance, position), 0.0)
        surprise = abs(reward - grid.interpolate(self.mean, position))
        return surprise > level * (sqrt(variance) + self._noise_std)
