"""The feature map is the kernel: on the grid, off it, and in few dimensions."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from macontrol.config import Config
from macontrol.config.model.errors import ConfigError
from macontrol.config.model.grid import Grid
from macontrol.controller.policies.features import KernelFeatures, kernel_features
from macontrol.controller.policies.kernel import kernel_from_config
from support.paper_reference import covariance

EXACT = 1e-12


def features_of(config: Config, grid: Grid) -> KernelFeatures:
    return kernel_features(kernel_from_config(config.kernel), grid)


def exact(config: Config, x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    return covariance(config.kernel)(x[:, None] - y[None, :])


CASES = [
    ({}, 6.0, 601),
    ({}, 6.0, 2),
    ({}, 30.0, 601),
    ({"kernel__name": "se"}, 6.0, 601),
    ({"kernel__name": "se", "kernel__se_length": 0.1}, 6.0, 301),
    ({"kernel__name": "const-se", "kernel__se_length": 4.0}, 6.0, 301),
    ({"kernel__name": "nonoscillatory"}, 30.0, 301),
    ({"kernel__fringe_periods": (0.5, 0.5, 0.5), "kernel__fringe_damping": 0.2}, 6.0, 301),
    ({"kernel__fringe_damping": 1e6, "kernel__residual_length": 1e6}, 6.0, 301),
]


@pytest.mark.parametrize(("values", "length", "size"), CASES)
def test_products_of_features_are_the_kernel(
    paper: Config, values: dict[str, object], length: float, size: int
) -> None:
    config, grid = paper.replace(**values), Grid(length, size)
    features = features_of(config, grid)
    on_grid = features.on_grid
    assert np.abs(on_grid @ on_grid.T - exact(config, grid.points, grid.points)).max() <= EXACT

    between = np.random.default_rng(1).uniform(0.0, length, 200)
    between[:2] = length - 1e-6, 1e-6
    off_grid = np.array([features.at(float(x)) for x in between])
    assert np.abs(off_grid @ on_grid.T - exact(config, between, grid.points)).max() <= EXACT
    assert np.abs(off_grid @ off_grid.T - exact(config, between, between)).max() <= EXACT


def test_there_are_few_features(paper: Config) -> None:
    assert features_of(paper, Grid(6.0, 601)).rank <= 40


def test_a_grid_position_has_the_tabulated_feature(paper: Config) -> None:
    grid = Grid(6.0, 601)
    features = features_of(paper, grid)
    for index in (0, 1, 300, 600):
        position = float(grid.points[index])
        np.testing.assert_array_equal(features.at(position), features.on_grid[index])
        rounded = min(max(position + 3e-10, 0.0), 6.0)
        np.testing.assert_array_equal(features.at(rounded), features.on_grid[index])


@pytest.mark.parametrize("position", [-1e-3, 6.001, 1e9])
def test_there_are_no_features_off_the_rail(paper: Config, position: float) -> None:
    with pytest.raises(ValueError, match="off the rail"):
        features_of(paper, Grid(6.0, 601)).at(position)


def test_a_kernel_too_fine_for_the_rail_is_refused(paper: Config) -> None:
    config = paper.replace(kernel__name="se", kernel__se_length=1e-4)
    with pytest.raises(ConfigError, match="too short for a rail of 6"):
        features_of(config, Grid(6.0, 601))


def test_features_are_computed_once(paper: Config) -> None:
    first, second = (features_of(paper, Grid(6.0, 601)) for _ in range(2))
    assert first is second
    with pytest.raises(ValueError, match="read-only"):
        first.on_grid[0, 0] = 1.0
