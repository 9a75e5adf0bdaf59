"""MoveUCB (Algorithm 1): choose a target on the whole rail, keep it, travel towards it.

Each component can be switched off, which gives the paper's ablation ladder and, with the search
limited to the reach, GP-UCB: a price of 0 is "no movement cost", a margin of 0 is "no persistence".
"""

from __future__ import annotations

from math import nan
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from macontrol.config.model.grid import are_apart
from macontrol.controller.policies.policy import Decision, Posterior
from macontrol.controller.policies.surface import SurfacePolicy

Array = NDArray[np.float64]


def movement_price(
    movement_cost: float, *, eta: float, sigma_f: float, rho_max: float, window: int
) -> float:
    """c̃ = (c_e + η·σ_f/ρ_max)/w (eq. price)."""
    return (movement_cost + eta * sigma_f / rho_max) / window


class MoveUCB(SurfacePolicy):
    """Algorithm 1, with each component switchable."""

    def __init__(
        self,
        posterior: Posterior,
        *,
        rho_max: float,
        beta: float,
        price: float,
        margin: float,
        start_position: float,
        search: Literal["global", "local"] = "global",
    ) -> None:
        super().__init__(
            posterior, rho_max=rho_max, beta=beta, margin=margin, start_position=start_position
        )
        self.set_price(price)
        self._global = search == "global"
        self._movement: Array = np.empty(self._grid.size)
        self._zeros: Array = np.zeros(self._grid.size)

    def set_price(self, price: float) -> None:
        self._price = price
        self._priced_points: Array = price * self._grid.points

    def decide(self, slot: int, position: float) -> Decision:
        """Lines 4 to 8 of Algorithm 1: the surface, the target, the step towards it."""
        surface = self._compute_surface(position)
        if self._global:
            return self._step(surface, position)
        reach = self._grid.in_reach(position, self._rho_max)
        best = reach.start + int(surface[reach].argmax())
        switched, self._target = best != self._target, best
        target = self._grid.points.item(best)
        step = self._grid.advance(position, target, self._rho_max)
        return Decision(target, step, switched, are_apart(target, step), nan)

    def _compute_surface(self, position: float) -> Array:
        """F_t(x) = μ_t(x) + β·σ_t(x) − c̃·|x − x_t| (eqs. ucb, acq-fn)."""
        # NumPy compares with an array of zeros twice as fast as with the number
        surface = np.maximum(self.posterior.variance, self._zeros, out=self.surface)
        np.sqrt(surface, out=surface)
        surface *= self._beta
        surface += self.posterior.mean
        if self._price:
            movement = np.subtract(self._priced_points, self._price * position, out=self._movement)
            surface -= np.abs(movement, out=movement)
        return surface
