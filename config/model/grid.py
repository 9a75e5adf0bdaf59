"""The positions a policy may choose: a uniform grid over the rail, and the part within reach.

Positions are in wavelengths. A position within `ON_GRID` of a grid point counts as that point, so
that sums of steps in floating point stay on the grid.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil, floor
from typing import TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from macontrol.config.model.units import ON_GRID as ON_GRID

Array: TypeAlias = NDArray[np.float64]


@overload
def are_apart(position: float, other: float) -> bool: ...


@overload
def are_apart(position: Array, other: Array) -> NDArray[np.bool_]: ...


def are_apart(position: float | Array, other: float | Array) -> bool | NDArray[np.bool_]:
    """Whether two positions are different places: the target switched, the target is not reached.

    This is what `switched` and `transit` mean in a run.
    """
    apart: bool | NDArray[np.bool_] = abs(position - other) > ON_GRID  # type: ignore[operator]
    return apart


@dataclass(frozen=True)
class Grid:
    """X_g = {0, Δ_g, 2Δ_g, …, D}."""

    length: float
    size: int

    @cached_property
    def spacing(self) -> float:
        return self.length / (self.size - 1)

    @cached_property
    def points(self) -> NDArray[np.float64]:
        points: NDArray[np.float64] = np.arange(self.size, dtype=np.float64) * self.spacing
        points[-1] = self.length
        points.flags.writeable = False
        return points

    def nearest(self, position: float) -> int:
        """The index of the grid point nearest to a position."""
        return min(max(round(position / self.spacing), 0), self.size - 1)

    def index(self, position: float) -> int | None:
        """The index of the grid point at a position, or None between grid points."""
        nearest = self.nearest(position)
        return nearest if abs(position - self.points.item(nearest)) <= ON_GRID else None

    def snap(self, position: float) -> float:
        """The position without its rounding error if it is on a grid point."""
        index = self.index(position)
        return position if index is None else float(self.points[index])

    def clamp(self, position: float) -> float:
        """The nearest position on the rail."""
        return min(max(position, 0.0), self.length)

    def interpolate(self, row: Array, position: float) -> float:
        """A value at a position, linear between the values at the grid points."""
        index = self.index(position)
        if index is not None:
            return row.item(index)
        return float(np.interp(position, self.points, row))

    def in_reach(self, position: float, stroke: float) -> slice:
        """A(x) ∩ X_g: the grid points within one stroke of a position (eq. reachable)."""
        first = max(ceil((position - stroke - ON_GRID) / self.spacing), 0)
        last = min(floor((position + stroke + ON_GRID) / self.spacing), self.size - 1)
        return slice(first, last + 1)

    def advance(self, position: float, target: float, stroke: float) -> float:
        """The next position on the way to a target, at most one stroke away (eq. approach)."""
        distance = target - position
        if abs(distance) <= stroke + ON_GRID:
            return target
        return self.snap(position + stroke if distance > 0 else position - stroke)
