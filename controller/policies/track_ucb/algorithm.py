"""track-ucb: the position with the best prospect over the next slots, with the way there in it.

MoveUCB compares places as they are now. Here each filter of the bank also says how long its
knowledge lasts: what it expects n slots ahead is dⁿ times what it expects now. The score of a
target y, n(y) slots of way from x_t, is the expected reward over the next H slots,

    F_t(y) = Σ_k p_k { Σ_{j=1}^{n} d_kʲ μ_k(x_t ± jρ) + Σ_{j=n+1}^{H} d_kʲ (μ_k(y) + βσ(y)) }/H
             − c_e·|y − x_t|/H,

so that in a fast world no target is worth a long way. The target is kept while no other is better
by more than Δ, as with MoveUCB (eq. hysteresis).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from macontrol.controller.policies.kalman_bank import KalmanBank
from macontrol.controller.policies.policy import Decision
from macontrol.controller.policies.surface import SurfacePolicy

Array = NDArray[np.float64]


class TrackUCB(SurfacePolicy):
    """The policy over a bank of filters."""

    posterior: KalmanBank

    def __init__(
        self,
        bank: KalmanBank,
        *,
        rho_max: float,
        beta: float,
        movement_cost: float,
        margin: float,
        horizon: int,
        start_position: float,
    ) -> None:
        super().__init__(
            bank, rho_max=rho_max, beta=beta, margin=margin, start_position=start_position
        )
        self._tabulate(movement_cost, horizon)

    def _tabulate(self, movement_cost: float, horizon: int) -> None:
        """What depends only on the distance, from one end of the rail to the other and back."""
        size, spacing, decay = self._grid.size, self._grid.spacing, self.posterior.decay[:, None]
        distance = spacing * np.abs(np.arange(1 - size, size))
        arrival = np.ceil(distance / self._rho_max - 1e-9).astype(np.intp)
        way = np.maximum(arrival - 1, 0)  # n(y): slots on the way before the target is reached
        ends = np.minimum(way, horizon)
        self._stay: Array = decay * (decay**ends - decay**horizon) / (1.0 - decay) / horizon
        self._price: Array = movement_cost / horizon * distance
        steps = np.arange(1, way[0] + 1)
        on_the_way = np.rint(steps * (self._rho_max / spacing)).astype(np.intp)
        fade = np.where(steps <= horizon, decay**steps, 0.0) / horizon
        self._steps = np.concatenate((-on_the_way[::-1], on_the_way))
        """The positions on the way down and up the rail, as steps of the grid from here …"""
        self._fade: Array = np.concatenate((fade[:, ::-1], fade), axis=1)
        """… and how much a reward there counts."""
        self._passed = np.where(np.arange(1 - size, size) < 0, -way, way)
        """The number of these positions that are passed on the way to each point."""
        self._within = np.searchsorted(on_the_way, np.arange(size), side="right").tolist()
        """The number of these positions within a distance."""

    def decide(self, slot: int, position: float) -> Decision:
        """Choose a target by its score, keep it by the persistence rule, take one step."""
        self.posterior.advance(slot)
        return self._step(self._compute_surface(self._grid.nearest(position)), position)

    def _compute_surface(self, here: int) -> Array:
        """F_t; distances are those from the grid point `here`."""
        bank, size = self.posterior, self._grid.size
        around = slice(size - 1 - here, 2 * size - 1 - here)
        shares, means = bank.shares, bank.means
        bonus = bank.spread(shares, means)
        np.sqrt(bonus, out=bonus)
        bonus *= self._beta
        worth = means + bonus
        worth *= self._stay[:, around]
        surface = np.dot(shares, worth, out=self.surface)
        surface -= self._price[around]
        middle = self._steps.size // 2
        below, above = self._within[here], self._within[size - 1 - here]
        on_the_way = slice(middle - below, middle + above)
        rewards = means[:, self._steps[on_the_way] + here]
        rewards *= self._fade[:, on_the_way]
        each = shares.dot(rewards)
        passed = np.zeros(below + 1 + above)
        np.cumsum(each[below:], out=passed[below + 1 :])
        np.cumsum(each[:below][::-1], out=passed[:below][::-1])
        surface += passed[self._passed[around] + below]
        return surface
