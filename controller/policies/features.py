"""The kernel as a short feature map: k(x, x') = φ(x)·φ(x') with a few dozen features.

The kernels are analytic, so on a rail of a few wavelengths their numerical rank is about thirty,
for any grid. The features are computed on Chebyshev nodes, where polynomial interpolation is
stable, and interpolated to any position: a position off the grid is as exact as one on it, and no
matrix of size G×G is needed.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from macontrol.config.model.errors import ConfigError
from macontrol.config.model.grid import Grid
from macontrol.controller.policies.kernel import StationaryKernel

Array = NDArray[np.float64]

MAX_NODES = 4096
# Eigenvalues below this share of the largest one are rounding noise of the decomposition.
_EIGENVALUE_CUTOFF = 1e-16
_INTERPOLATION_TOLERANCE = 2e-14


class KernelFeatures:
    """Features of a kernel over the rail [0, length], tabulated on a uniform grid."""

    def __init__(self, kernel: StationaryKernel, grid: Grid) -> None:
        self.kernel = kernel
        self.grid = grid
        nodes = chebyshev_nodes(kernel, grid.length)
        covariance = kernel(nodes[:, None] - nodes[None, :])
        values, vectors = np.linalg.eigh(covariance)
        keep = values > _EIGENVALUE_CUTOFF * values[-1]
        order = np.flatnonzero(keep)[::-1]
        self._nodes = nodes
        self._at_nodes: Array = vectors[:, order] * np.sqrt(values[order])
        self.rank = len(order)
        self.on_grid: Array = np.ascontiguousarray(self.between(grid.points))
        self.on_grid.flags.writeable = False

    def at(self, position: float) -> Array:
        """φ(x): tabulated on the grid, interpolated off it."""
        index = self.grid.index(position)
        if index is not None:
            row: Array = self.on_grid[index]
            return row
        if not 0.0 <= position <= self.grid.length:
            raise ValueError(f"position {position!r} is off the rail [0, {self.grid.length:g}]")
        row = self.between(np.array([position]))[0]
        return row

    def between(self, positions: Array) -> Array:
        """φ at any positions on the rail, one row for each."""
        rows: Array = interpolation(positions, self._nodes) @ self._at_nodes
        return rows


def chebyshev_nodes(kernel: StationaryKernel, length: float) -> Array:
    """The fewest nodes on [0, length] (in steps of one half) that give the kernel to rounding."""
    probe = np.linspace(0.0, length, 1025)
    anchors = np.array([[0.0, length / 2, length]])
    count = 16
    while count <= MAX_NODES:
        angles = (np.arange(count) + 0.5) * np.pi / count
        nodes: Array = length / 2 * (1 - np.cos(angles))
        known = kernel(nodes[:, None] - anchors)
        expected = kernel(probe[:, None] - anchors)
        error = np.abs(interpolation(probe, nodes) @ known - expected).max()
        if error <= _INTERPOLATION_TOLERANCE:
            return nodes
        count = int(count * 1.5)
    shortest = min(term.length for term in kernel.terms)
    raise ConfigError(
        f"kernel: its shortest length ({shortest:g} wavelengths) is too short for a rail of "
        f"{length:g}: more than {MAX_NODES} features are necessary",
        "set the kernel's lengths and periods higher, or physical.region_length lower",
    )


def interpolation(points: Array, nodes: Array) -> Array:
    """The matrix of barycentric interpolation from Chebyshev nodes (first kind) to points."""
    count = len(nodes)
    weights = np.sin((np.arange(count) + 0.5) * np.pi / count)
    weights[1::2] *= -1
    difference = points[:, None] - nodes[None, :]
    exact_row, exact_column = np.nonzero(difference == 0)
    difference[exact_row, exact_column] = 1.0
    matrix: Array = weights / difference
    matrix /= matrix.sum(axis=1, keepdims=True)
    matrix[exact_row] = 0.0
    matrix[exact_row, exact_column] = 1.0
    return matrix


@lru_cache(maxsize=16)
def kernel_features(kernel: StationaryKernel, grid: Grid) -> KernelFeatures:
    """The features of a kernel on a grid, computed once and shared by all posteriors."""
    return KernelFeatures(kernel, grid)
