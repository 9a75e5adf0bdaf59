"""Functions on the grid from their coefficients: f(x) = Σ c_j·φ_j(x), for a few functions at once.

On a short rail this is one product with the table of the features. On a long one the table, G×r,
does not fit into the cache, and to read it takes longer than all the rest of a decision. But every
such function is as smooth as the kernel. So the rail is divided into panels of equal length: the
functions are computed on the Chebyshev nodes of every panel and interpolated to its grid points,
with one small matrix that all panels share. It is exact to rounding for coefficients that follow
from samples, Σ a_i·φ(x_i) or A⁻¹ of that: in arbitrary ones, the least features, which are hardly
more than rounding noise, would count as much as all others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from macontrol.config.model.grid import Grid
from macontrol.controller.policies.features import (
    KernelFeatures,
    chebyshev_nodes,
    interpolation,
)

Array = NDArray[np.float64]

_LONG_RANK = 64
"""Below this rank the table is in the cache, and one product is the fastest."""
_LEAST_POINTS = 32
"""A panel with fewer grid points has about as many nodes."""
_READING = 2.5
"""The cost of a product with a table that is read once, in products of the small matrix."""


class Expansion:
    """Computes rows of functions on the grid; `coefficients` may have unused columns at the end."""

    def __init__(self, features: KernelFeatures, *, unused: int = 0) -> None:
        self._panels = _panels(features) if features.rank >= _LONG_RANK else None
        panels = self._panels
        rows = features.on_grid if panels is None else features.between(panels.nodes.ravel())
        self._transposed: Array = np.zeros((features.rank + unused, len(rows)))
        self._transposed[: features.rank] = rows.T

    def fill(self, coefficients: Array, out: Array) -> None:
        """Write one function over the grid into each row of `out`, from its row of coefficients."""
        panels = self._panels
        if panels is None:
            coefficients.dot(self._transposed, out=out)
            return
        count, nodes = panels.nodes.shape
        at_nodes = coefficients.dot(self._transposed).reshape(-1, nodes)
        values = at_nodes.dot(panels.interpolation).reshape(-1, count, panels.points)
        whole = (count - 1) * panels.points
        out[:, :whole].reshape(-1, count - 1, panels.points)[:] = values[:, :-1]  # a view of out
        out[:, -panels.points :] = values[:, -1]


class _Panels(NamedTuple):
    """Panels of consecutive grid points; the last one ends at the end, over the one before it."""

    points: int
    """The number of grid points of a panel."""
    nodes: Array
    """The positions of the nodes, one row per panel."""
    interpolation: Array
    """From the values at the nodes of a panel to those at its grid points."""


def _panels(features: KernelFeatures) -> _Panels | None:
    """The division of the rail with the cheapest expansion; None if one product is cheaper."""
    grid, rank = features.grid, features.rank
    best, least = None, _READING * grid.size * rank
    points = grid.size
    while (points := -(-points // 2)) >= _LEAST_POINTS:
        count = -(-grid.size // points)
        panel = Grid(grid.spacing * (points - 1), points)
        nodes = chebyshev_nodes(features.kernel, panel.length)
        cost = _READING * count * len(nodes) * rank + grid.size * len(nodes)
        if cost < least:
            firsts = np.minimum(np.arange(count) * points, grid.size - points)
            positions = grid.points[firsts, None] + nodes
            best, least = _Panels(points, positions, interpolation(panel.points, nodes).T), cost
    return best
