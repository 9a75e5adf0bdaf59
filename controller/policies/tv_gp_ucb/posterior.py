"""The posterior of TV-GP-UCB: all samples, with the kernel k(x, x')·(1 − ε)^(|t − t'|/2).

This is the posterior of a reward that drifts as f_{t+1} = √(1 − ε)·f_t + √ε·g, with g a new draw of
the same process: that of one Kalman filter with d = √(1 − ε). A slot costs O(r² + G·r), however
many samples there are.
"""

from __future__ import annotations

from math import inf, log1p

from macontrol.controller.policies.features import KernelFeatures
from macontrol.controller.policies.kalman_bank import KalmanBank

HISTORY = 256
"""Slots for which a reward can be late, or be withdrawn."""


class DriftingPosterior(KalmanBank):
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
        super().__init__(
            features,
            time_constants=[-2.0 / log1p(-change_rate) if change_rate else inf],
            sigma_f2=sigma_f2,
            noise_variance=ridge,
            memory=1.0,
            doubt=0.0,
            history=HISTORY,
            offset=offset,
        )

    def age_to(self, slot: int) -> None:
        """Predict the next slot."""
        self.advance(slot + 1)
