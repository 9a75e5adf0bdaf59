"""The grid: its points, and the part within one stroke."""

from __future__ import annotations

import numpy as np
import pytest

from macontrol.config import Config
from macontrol.config.model.grid import Grid, are_apart


def test_the_grid_includes_both_ends_of_the_rail(paper: Config) -> None:
    grid = paper.grid
    assert (grid.size, grid.spacing, grid.points[0], grid.points[-1]) == (601, 0.01, 0.0, 6.0)
    np.testing.assert_allclose(grid.points, np.linspace(0.0, 6.0, 601), rtol=0, atol=1e-14)


def test_a_position_is_on_a_grid_point_up_to_rounding() -> None:
    grid = Grid(6.0, 601)
    assert grid.index(0.1 + 0.2) == 30
    assert grid.snap(0.1 + 0.2) == grid.points[30]
    assert grid.index(0.305) is None
    assert grid.snap(0.305) == 0.305
    assert [grid.nearest(x) for x in (-1.0, 0.0, 0.304, 0.306, 5.999, 7.0)] == [
        0,
        0,
        30,
        31,
        600,
        600,
    ]


@pytest.mark.parametrize(
    ("position", "stroke", "first", "last"),
    [
        (3.0, 0.06, 294, 306),
        (0.0, 0.06, 0, 6),
        (6.0, 0.06, 594, 600),
        (0.03, 0.06, 0, 9),
        (3.005, 0.06, 295, 306),
        (3.0, 0.065, 294, 306),
        (3.005, 0.01, 300, 301),
        (3.0, 100.0, 0, 600),
    ],
)
def test_in_reach_is_within_one_stroke_and_on_the_rail(
    position: float, stroke: float, first: int, last: int
) -> None:
    assert Grid(6.0, 601).in_reach(position, stroke) == slice(first, last + 1)


@pytest.mark.parametrize(
    ("position", "target", "stroke", "expected"),
    [
        (3.0, 4.0, 0.06, 3.06),
        (3.0, 2.0, 0.06, 2.94),
        (3.0, 3.03, 0.06, 3.03),
        (3.0, 3.06, 0.06, 3.06),
        (3.0, 3.0, 0.06, 3.0),
        (3.0, 4.0, 0.065, 3.065),
        (3.065, 3.0, 0.065, 3.0),
        (0.02, 0.0, 0.06, 0.0),
    ],
)
def test_an_advance_is_the_projection_onto_the_reach(
    position: float, target: float, stroke: float, expected: float
) -> None:
    assert Grid(6.0, 601).advance(position, target, stroke) == pytest.approx(expected, abs=1e-12)


def test_a_hundred_strokes_cross_the_rail_without_leaving_the_grid() -> None:
    grid, x = Grid(6.0, 601), 0.0
    for _ in range(100):
        x = grid.advance(x, 6.0, 0.06)
        assert x in grid.points
    assert x == 6.0


def test_a_row_is_interpolated_between_grid_points() -> None:
    grid, row = Grid(2.0, 3), np.array([1.0, 3.0, 2.0])
    positions = [0.0, 0.25, 1.0 + 1e-10, 1.5, 2.0]
    assert [grid.interpolate(row, x) for x in positions] == [1.0, 1.5, 3.0, 2.5, 2.0]


def test_positions_are_apart_beyond_rounding() -> None:
    assert not are_apart(0.1 + 0.2, 0.3)
    assert not are_apart(1.0, 1.0 + 0.9e-9)
    assert are_apart(1.0, 1.0 + 1.1e-9)
    found = are_apart(np.array([1.0, 2.0]), np.array([1.0, 2.01]))
    assert found.tolist() == [False, True]
