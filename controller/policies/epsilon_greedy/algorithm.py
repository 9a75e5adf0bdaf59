"""ε-greedy within reach."""

from __future__ import annotations

from math import nan

import numpy as np

from macontrol.controller.policies.policy import Decision, Posterior, PosteriorPolicy


class EpsilonGreedy(PosteriorPolicy):
    """Within reach: the best mean, or with probability ε any position, all equally likely."""

    def __init__(
        self,
        posterior: Posterior,
        *,
        rho_max: float,
        epsilon: float,
        start_position: float,
        rng: np.random.Generator,
    ) -> None:
        super().__init__(posterior, rho_max=rho_max, start_position=start_position)
        self._epsilon = epsilon
        self._rng = rng

    def decide(self, slot: int, position: float) -> Decision:
        reach = self._grid.in_reach(position, self._rho_max)
        if self._rng.random() < self._epsilon:
            chosen = int(self._rng.integers(reach.start, reach.stop))
        else:
            chosen = reach.start + int(self.posterior.mean[reach].argmax())
        switched, self._target = chosen != self._target, chosen
        target = float(self._grid.points[chosen])
        return Decision(target, target, switched, False, nan)
