"""MoveUCB (Algorithm 1): choose a target on the whole rail, keep it, travel towards it.

Each component can be switched off, which gives the paper's ablation ladder and, with the search
limited to the reach, GP-UCB: a price of 0 is "no movement cost", a margin of 0 is "no persistence".
"""

from __future__ import annotations

from collections.abc import Callable
from math import nan
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from macontrol.config.model.grid import are_apart
from macontrol.controller.policies.policy import Decision, Posterior, PosteriorPolicy

Array = NDArray[np.float64]


def movement_price(
    movement_cost: float, *, eta: float, sigma_f: float, rho_max: float, window: int
) -> float:
    """c̃ = (c_e + η·σ_f/ρ_max)/w (eq. price)."""
    return (movement_cost + eta * sigma_f / rho_max) / window


class MoveUCB(PosteriorPolicy):
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
        super().__init__(posterior, rho_max=rho_max, start_position=start_position)
        self.margin = margin
        self.surface: Array = np.zeros(posterior.grid.size)
        """F_t over the grid, as of the last decision (eq. acq-fn)."""
        self._beta = beta
        self.set_price(price)
        self.settings: dict[str, float] = {}
        """The settings that can change within a run: see `offer`."""
        self._changes: dict[str, Callable[[float], None]] = {}
        self._global = search == "global"
        self._movement: Array = np.empty(self._grid.size)
        self._zeros: Array = np.zeros(self._grid.size)

    def offer(self, key: str, value: float, change: Callable[[float], None]) -> None:
        """Permit to change a setting of `[algorithm]` within a run, with this value now."""
        self.settings[key], self._changes[key] = value, change

    def adjust(self, key: str, value: float) -> None:
        self._changes[key](value)
        self.settings[key] = value

    def set_beta(self, beta: float) -> None:
        self._beta = beta

    def set_margin(self, margin: float) -> None:
        self.margin = margin

    def set_price(self, price: float) -> None:
        self._price = price
        self._priced_points: Array = price * self._grid.points

    def decide(self, slot: int, position: float) -> Decision:
        """Lines 4 to 8 of Algorithm 1: the surface, the target, the step towards it."""
        surface = self._compute_surface(position)
        if self._global:
            best = int(surface.argmax())
            shortfall = surface.item(best) - surface.item(self._target)
            switched = shortfall > self.margin
            if switched:
                self._target = best
                shortfall = 0.0
        else:
            reach = self._grid.in_reach(position, self._rho_max)
            best = reach.start + int(surface[reach].argmax())
            shortfall = nan
            switched = best != self._target
            self._target = best
        target = self._grid.points.item(self._target)
        step = self._grid.advance(position, target, self._rho_max)
        return Decision(target, step, switched, are_apart(target, step), shortfall)

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
