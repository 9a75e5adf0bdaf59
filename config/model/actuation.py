"""What a move costs of its slot: the actuation time τ_t, in which the link does not transmit.

Two ways to divide a slot share everything that follows from τ_t:

    fixed      τ_t = T_a in every slot, as in the paper
    as-needed  τ_t = 0 if the antenna holds, else τ(d) = latency + motion over d + settling ≤ T_a

The reward of a slot is r_t = (1 − τ_t/T_s)·log2(1 + SNR) (eq. reward). A slot in which the antenna
holds is the reference: maps, surveys and policies have rewards of such a slot, so that rewards are
comparable between positions. A slot with a move earns the part `weight` of it. In "fixed" that is
exactly 1 in every slot.

Distances are in wavelengths.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from macontrol.config.model.motion import Trapezoid
from macontrol.config.model.units import ON_GRID

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Actuation:
    """The actuation time of a slot, by the distance that the antenna moves in it."""

    slot_s: float
    """T_s."""
    longest_s: float
    """T_a."""
    overhead_s: float
    """The time of a move without its motion: command latency and settling."""
    motion: Trapezoid
    as_needed: bool

    def time_s(self, distance: float) -> float:
        """τ(d), as planned; it never exceeds T_a."""
        if not self.as_needed:
            return self.longest_s
        if distance <= ON_GRID:
            return 0.0
        return min(self.overhead_s + self.motion.time_s(distance), self.longest_s)

    def spent_s(self, distance: float, late_s: float) -> float:
        """τ_t of a move that was over `late_s` after its plan; at most T_a."""
        return min(self.time_s(distance) + max(late_s, 0.0), self.longest_s)

    def share(self, time_s: float) -> float:
        """1 − τ_t/T_s: the part of a slot in which the link transmits."""
        return 1.0 - time_s / self.slot_s

    @property
    def holding_share(self) -> float:
        """The share of a slot in which the antenna holds, which is the largest one."""
        return self.share(self.time_s(0.0))

    def earned(self, time_s: float) -> float:
        """The reward of a slot that spends τ_t, relative to that of a holding antenna."""
        return self.share(time_s) / self.holding_share

    def weight(self, distance: float) -> float:
        """`earned` of a slot with a move over a distance, as planned."""
        return self.earned(self.time_s(distance))

    def weights(self, distances: NDArray[np.float64]) -> NDArray[np.float64]:
        """`weight` for an array."""
        import numpy as np  # the config loads without NumPy

        if not self.as_needed:
            return np.ones_like(distances)
        return np.array([self.weight(distance) for distance in distances.tolist()], dtype=float)

    def recorded(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """`earned` of recorded slots, by their share; 1 where none is recorded."""
        import numpy as np

        with np.errstate(invalid="ignore"):
            return np.where(shares > 0, shares / self.holding_share, 1.0)

    def price(self, rate: float, stroke: float) -> float:
        """The reward that a long way costs per wavelength, at the rate of a holding antenna.

        Such a way is made of full strokes, each in a slot of its own.
        """
        return (1.0 - self.weight(stroke)) * max(rate, 0.0) / stroke
