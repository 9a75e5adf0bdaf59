"""What policies with a surface F_t share: the persistence rule, and settings that can change."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from macontrol.config.model.grid import are_apart
from macontrol.controller.policies.policy import Decision, Posterior, PosteriorPolicy

Array = NDArray[np.float64]


class SurfacePolicy(PosteriorPolicy):
    """Keeps its target while the surface is higher elsewhere by no more than Δ."""

    def __init__(
        self,
        posterior: Posterior,
        *,
        rho_max: float,
        beta: float,
        margin: float,
        start_position: float,
    ) -> None:
        super().__init__(posterior, rho_max=rho_max, start_position=start_position)
        self.margin = margin
        self.surface: Array = np.zeros(posterior.grid.size)
        """F_t over the grid, as of the last decision."""
        self.set_beta(beta)
        self.settings: dict[str, float] = {}
        """The settings that can change within a run: see `offer`."""
        self._changes: dict[str, Callable[[float], None]] = {}

    def offer(self, key: str, value: float, change: Callable[[float], None]) -> None:
        """Permit to change a setting of `[algorithm]` within a run, with this value now."""
        self.settings[key], self._changes[key] = value, change

    def adjust(self, key: str, value: float) -> None:
        self._changes[key](value)
        self.settings[key] = value

    def set_beta(self, beta: float) -> None:
        # NumPy multiplies by an array without axes twice as fast as by a number of Python
        self._beta: Array = np.array(beta)

    def set_margin(self, margin: float) -> None:
        self.margin = margin

    def _step(self, surface: Array, position: float) -> Decision:
        """Choose the target (eq. hysteresis), and take one step towards it."""
        best = int(surface.argmax())
        shortfall = surface.item(best) - surface.item(self._target)
        switched = shortfall > self.margin
        if switched:
            self._target = best
            shortfall = 0.0
        target = self._grid.points.item(self._target)
        step = self._grid.advance(position, target, self._rho_max)
        return Decision(target, step, switched, are_apart(target, step), shortfall)
