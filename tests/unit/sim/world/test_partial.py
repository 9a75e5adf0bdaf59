"""Maps that are known in part: what is interpolated, and what stays unknown."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import inf, nan

import numpy as np
import pytest

from macontrol.config import Config, load_config
from macontrol.sim.world.partial import LONGEST_DISTANCE, Filled, basis_of, fill
from macontrol.sim.world.rewardmap import Flags, Floats, RewardMap, simulate_map

Knot = tuple[float, float]


@pytest.fixture(scope="module")
def config() -> Config:
    """Slots of 1 s, grid points of 0.05 λ, a window of 10 s."""
    return load_config().replace(
        algorithm__grid_spacing=0.05,
        algorithm__window=10,
        physical__slot_duration_s=1.0,
        physical__region_length=1.0,
        survey__samples=3,
    )


def world_of(cells: dict[tuple[int, int], float], slots: int, config: Config) -> RewardMap:
    """A map with rewards in these cells (slot, position), and nothing elsewhere."""
    reward = np.full((slots, config.grid_size), nan)
    for cell, value in cells.items():
        reward[cell] = value
    return RewardMap(
        reward,
        np.zeros(slots),
        np.array([0.0, 1.0]),
        np.ones(2),
        available=~np.isnan(reward),
    )


def filled_directly(world: RewardMap, config: Config, longest_s: float) -> Floats:
    """The rule of `partial`, cell by cell."""
    assert world.available is not None
    spacing, slot_s = config.grid.spacing, config.physical.slot_duration_s
    cells = [tuple(cell) for cell in np.argwhere(world.available).tolist()]
    knots: dict[int, list[Knot]] = {column: [] for column in range(config.grid_size)}
    for row, column in cells:
        knots[column].append((row * slot_s, world.reward[row, column]))
    for (row, column), (next_row, next_column) in pairwise(cells):
        apart = abs(next_column - column)
        if apart * spacing > LONGEST_DISTANCE + 1e-9 or (next_row - row) * slot_s > longest_s:
            continue
        for steps in range(1, apart):
            share = steps / apart
            crossed = column + steps * (1 if next_column > column else -1)
            reward = (1 - share) * world.reward[row, column]
            reward += share * world.reward[next_row, next_column]
            knots[crossed].append((((1 - share) * row + share * next_row) * slot_s, reward))
    found = np.full(world.reward.shape, nan)
    for row, column in np.ndindex(*found.shape):
        now = row * slot_s
        if world.available[row, column]:
            found[row, column] = world.reward[row, column]
            continue
        before = max((knot for knot in knots[column] if knot[0] <= now), default=None)
        after = min((knot for knot in knots[column] if knot[0] >= now), default=None)
        if before and after and after[0] - before[0] <= longest_s:
            share = (now - before[0]) / ((after[0] - before[0]) or 1.0)
            found[row, column] = (1 - share) * before[1] + share * after[1]
    return found


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("longest_s", [0.0, 6.0, 10.0, inf])
def test_it_is_the_rule_computed_cell_by_cell(config: Config, seed: int, longest_s: float) -> None:
    random = np.random.default_rng(seed)
    slots = 60
    walk = np.clip(np.cumsum(random.integers(-3, 4, slots)) + 10, 0, config.grid_size - 1)
    measured = random.random(slots) < 0.7
    cells = {(row, int(walk[row])): random.random() for row in np.flatnonzero(measured).tolist()}
    cells |= {(30, column): random.random() for column in (1, 2, 9, 11)}
    world = world_of(cells, slots, config)
    found = fill(world, config, longest_s).world
    np.testing.assert_allclose(found.reward, filled_directly(world, config, longest_s), rtol=1e-12)
    known = ~np.isnan(found.reward)
    assert found.available is not None
    np.testing.assert_array_equal(found.available, known)
    for cell, value in cells.items():
        assert found.reward[cell] == value


def test_in_time_it_interpolates_over_a_window_and_not_further(config: Config) -> None:
    world = world_of({(0, 4): 1.0, (10, 4): 2.0, (21, 4): 3.0}, 30, config)
    found = fill(world, config).world.reward
    np.testing.assert_allclose(found[:11, 4], np.linspace(1.0, 2.0, 11))
    assert np.isnan(found[11:21, 4]).all()
    assert found[21, 4] == 3.0
    assert np.isnan(found[22:]).all(), "nothing is extrapolated"
    assert np.isnan(np.delete(found, 4, axis=1)).all()
    assert np.isnan(fill(world, config, 9.0).world.reward[5, 4])


@pytest.mark.parametrize(("apart", "is_known"), [(2, True), (3, False)])
def test_in_space_it_interpolates_over_a_quarter_of_the_shortest_fringe(
    config: Config, apart: int, is_known: bool
) -> None:
    """The grid has 0.05 λ: two steps are 0.1 λ, three are 0.15 λ."""
    there_and_back = {(0, 4): 1.0, (2, 4 + apart): 2.0, (3, 4 + apart): 4.0, (5, 4): 3.0}
    found = fill(world_of(there_and_back, 6, config), config).world.reward
    # It crosses position 5 at 1 s, with 1.5, and at 4 s, with 3.5.
    expected = [nan, 1.5, 1.5 + 2 / 3, 1.5 + 4 / 3, 3.5, nan]
    np.testing.assert_allclose(found[:, 5], expected if is_known else [nan] * 6)


def test_the_times_are_those_of_the_slots(config: Config) -> None:
    world = world_of({(0, 4): 1.0, (2, 4): 2.0}, 3, config)
    dated = replace(world, unix_s=1.7e9 + np.array([0.0, 1.0, 4.0]))
    assert fill(dated, config).world.reward[1, 4] == pytest.approx(1.25)


def test_only_the_span_is_replayed(config: Config) -> None:
    world = replace(
        world_of({(0, 4): 1.0, (4, 4): 2.0}, 5, config),
        span=(1, 3),
        unix_s=np.arange(5.0),
    )
    found = fill(world, config)
    assert found.world.span is None
    assert found.world.reward[:, 4].tolist() == [1.25, 1.5]
    assert found.world.unix_s is not None
    assert found.world.unix_s.tolist() == [1.0, 2.0]
    assert found.measured is not None
    assert not found.measured.any()


def test_a_map_that_is_known_everywhere_stays_as_it_is(config: Config) -> None:
    world = simulate_map(config, 1, 12)
    found = fill(world, config)
    assert found.measured is None
    np.testing.assert_array_equal(found.world.reward, world.reward)
    position = np.full(12, 0.5)
    assert basis_of(found, config, position, np.ones(12)) == (1.0, 0.0, 0.0)


def test_a_map_whose_gaps_are_closed_is_complete(config: Config) -> None:
    world = simulate_map(config, 1, 12)
    available = np.ones(world.reward.shape, bool)
    available[3:6] = False
    found = fill(replace(world, available=available), config)
    assert found.world.available is None
    np.testing.assert_array_equal(found.world.reward[:3], world.reward[:3])
    np.testing.assert_allclose(found.world.reward[4], world.reward[[2, 6]].mean(axis=0))


def test_the_basis_of_each_observation_is_counted(config: Config) -> None:
    measured: Flags = np.zeros((4, config.grid_size), bool)
    measured[0, 4] = measured[1, 4] = True
    filled = Filled(world_of({(0, 4): 1.0}, 4, config), measured)
    position = np.array([0.2, 0.21, 0.2, 0.2])  # the second is between grid points
    reward = np.array([1.0, 1.0, 1.0, nan])
    assert basis_of(filled, config, position, reward) == pytest.approx((0.25, 0.5, 0.25))
