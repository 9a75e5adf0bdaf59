"""The Policy protocol: observe the reward at the antenna's position, decide the next position.

One implementation of each policy serves the slot loop, replay and campaigns. Slot t is
`observe(t, x_t, r_t)`, unless there is no valid reward, then `decide(t, x_t)` for x_{t+1}. What
only some policies have is a capability: a surface F_t to check against the theory, or a posterior
to show.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:  # a description of a policy loads without NumPy
    import numpy as np
    from numpy.typing import NDArray

    from macontrol.config.model.grid import Grid

    Array = NDArray[np.float64]


class Decision(NamedTuple):
    """What was decided after a slot. Positions are in wavelengths."""

    target: float
    """z_t: where the antenna is headed."""
    position: float
    """x_{t+1}: the position of the next slot, within reach."""
    switched: bool
    """Whether the target differs from that of the previous slot."""
    transit: bool
    """Whether the target is beyond the next position."""
    shortfall: float
    """max F_t − F_t(z_t): what it costs to keep the target; NaN without a surface F_t."""


class Policy(Protocol):
    """A rule for positioning the antenna."""

    @property
    def start_position(self) -> float:
        """Get x_1, the position of the antenna before slot 1, in wavelengths."""

    def resume(self, target: float) -> None:
        """Continue with the target of an earlier run; its samples are given to `observe`."""

    def observe(self, slot: int, position: float, reward: float) -> None:
        """Add the reward of a slot; it may be late, and some slots have none."""

    def withdraw(self, slot: int) -> None:
        """Forget the reward of a slot: there was no signal in it."""

    def decide(self, slot: int, position: float) -> Decision:
        """Choose the position of the next slot, given that of the antenna in this slot."""


@runtime_checkable
class HasSurface(Protocol):
    """A policy that maximises a surface; its runs are checked against the paper's theory."""

    @property
    def surface(self) -> Array:
        """Get F_t over the grid, as of the last decision (eq. acq-fn)."""

    @property
    def margin(self) -> float:
        """Get Δ: the target is kept while the surface exceeds it by no more than this."""


def margin_of(policy: Policy) -> float:
    """Δ of a policy with a surface; 0 for any other, for which nothing is proven."""
    return policy.margin if isinstance(policy, HasSurface) else 0.0


@runtime_checkable
class HasSettings(Protocol):
    """A policy with settings of `[algorithm]` that can change within a run."""

    @property
    def settings(self) -> Mapping[str, float]:
        """Get their current values, by the key in `[algorithm]`."""
        ...

    def adjust(self, key: str, value: float) -> None:
        """Change one, which the config has accepted; it counts from the next decision on."""
        ...


class Posterior(Protocol):
    """An estimate of the reward over the grid from the most recent samples."""

    @property
    def grid(self) -> Grid: ...
    @property
    def mean(self) -> Array: ...
    @property
    def variance(self) -> Array: ...
    def observe(self, slot: int, position: float, reward: float) -> None: ...
    def withdraw(self, slot: int) -> None: ...


@runtime_checkable
class HasPosterior(Protocol):
    """A policy with an estimate of the reward along the rail."""

    @property
    def posterior(self) -> Posterior: ...


class PosteriorPolicy:
    """What policies with a posterior share: they learn through it; the target is a grid index."""

    def __init__(self, posterior: Posterior, *, rho_max: float, start_position: float) -> None:
        self.posterior = posterior
        self.start_position = start_position
        self._grid = posterior.grid
        self._rho_max = rho_max
        self._target = self._grid.nearest(start_position)

    def resume(self, target: float) -> None:
        self._target = self._grid.nearest(target)

    def observe(self, slot: int, position: float, reward: float) -> None:
        self.posterior.observe(slot, position, reward)

    def withdraw(self, slot: int) -> None:
        self.posterior.withdraw(slot)
