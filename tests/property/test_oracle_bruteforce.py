"""The oracle's value is the best over all feasible paths, enumerated one by one."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from macontrol.config import Config, load_config
from macontrol.sim.research.oracle import oracle_path, oracle_value
from macontrol.sim.research.oracle_so_far import OracleSoFar

PAPER = load_config()
SPACING = 0.125
SPEED, LATENCY_S = 12.0, 2e-4


@st.composite
def cases(draw: st.DrawFn) -> tuple[Config, NDArray[np.float64], list[float]]:
    points = draw(st.integers(2, 6))
    slots = draw(st.integers(1, 5))
    config = PAPER.replace(
        physical__region_length=(points - 1) * SPACING,
        physical__stroke=SPACING * draw(st.sampled_from([1, 1.5, 2, 3, 4.9, 7])),
        physical__actuator_speed_m_per_s=SPEED,
        physical__command_latency_s=LATENCY_S,
        physical__actuation=draw(st.sampled_from(["fixed", "as-needed"])),
        physical__initial_position=(points - 1) * SPACING * draw(st.floats(0, 1)),
        algorithm__grid_spacing=SPACING,
        survey__samples=2,
    )
    # Few distinct values make ties, and values of every size make rounding errors.
    value = st.one_of(st.integers(0, 3).map(float), st.floats(-10, 10))
    row = st.lists(value, min_size=points, max_size=points)
    reward = draw(st.lists(row, min_size=slots, max_size=slots))
    costs = draw(st.lists(st.sampled_from([0.0, 0.3, 2.0, 8.0, 66.0]), min_size=1, max_size=3))
    return config, np.array(reward), costs


def net_of_travel(
    config: Config, reward: NDArray[np.float64], path: tuple[int, ...], cost: float
) -> float:
    """The net reward of a path; minus infinity if a step is longer than the stroke."""
    at, total = config.physical.x_0, 0.0
    for slot, index in enumerate(path):
        step = abs(index * SPACING - at)
        if step > config.physical.rho_max + 1e-9 * SPACING:
            return -math.inf
        total += float(reward[slot, index]) * left_by(config, step) - cost * step
        at = index * SPACING
    return total


def left_by(config: Config, step: float) -> float:
    """The part of the slot that a step leaves, relative to a slot without a step."""
    if config.physical.actuation == "fixed" or step < 1e-9:
        return 1.0
    return 1 - (LATENCY_S + step * config.physical.wavelength_mm * 1e-3 / SPEED) / 5e-3


@settings(max_examples=150, deadline=None)
@given(cases())
def test_oracle_is_the_best_of_all_paths(
    case: tuple[Config, NDArray[np.float64], list[float]],
) -> None:
    config, reward, costs = case
    slots, points = reward.shape
    values = oracle_value(reward, config, costs)
    for cost, value in zip(costs, values, strict=True):
        best = max(
            net_of_travel(config, reward, path, cost)
            for path in itertools.product(range(points), repeat=slots)
        )
        assert value == pytest.approx(best, abs=1e-9)
        path = oracle_path(reward, config, cost)
        assert path.value == pytest.approx(best, abs=1e-9)
        walked = tuple(path.index.tolist())
        assert net_of_travel(config, reward, walked, cost) == pytest.approx(best, abs=1e-9)


@settings(max_examples=100, deadline=None)
@given(cases())
def test_the_oracle_so_far_is_the_best_of_all_paths_so_far(
    case: tuple[Config, NDArray[np.float64], list[float]],
) -> None:
    config, reward, costs = case
    config = config.replace(reward__movement_cost=costs[0])
    oracle = OracleSoFar(config, iter([reward]), stretch_slots=2, stretches=9)
    for slots in range(1, len(reward) + 1):
        oracle.advance(slots)
        best = max(
            net_of_travel(config, reward, path, costs[0])
            for path in itertools.product(range(reward.shape[1]), repeat=slots)
        )
        assert oracle.best().value == pytest.approx(best, abs=1e-9)
