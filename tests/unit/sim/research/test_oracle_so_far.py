"""The oracle of a run that is still running, compared with the one that begins at the end."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from macontrol.config import Config, load_config
from macontrol.sim.research.oracle import oracle_path, oracle_value
from macontrol.sim.research.oracle_so_far import OracleSoFar
from macontrol.sim.world.channel import reward_blocks, reward_rows

SLOTS, SEED, STRETCH = 900, 5, 40


@pytest.fixture(scope="module")
def paper() -> Config:
    return load_config()


@pytest.fixture(scope="module")
def rewards(paper: Config) -> NDArray[np.float64]:
    return reward_rows(paper, SEED, SLOTS)


def so_far(config: Config, stretches: int = 100) -> OracleSoFar:
    blocks = reward_blocks(config, SEED)
    return OracleSoFar(config, blocks, stretch_slots=STRETCH, stretches=stretches)


@pytest.mark.parametrize("model", ["continuous", "piecewise"])
def test_blocks_are_the_rows_of_a_map(paper: Config, model: str) -> None:
    config = paper.replace(drift__model=model)
    blocks = reward_blocks(config, SEED)
    found = np.concatenate([next(blocks).copy() for _ in range(8)])[:SLOTS]
    np.testing.assert_allclose(found, reward_rows(config, SEED, SLOTS), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("cost", [0.0, 0.3, 20.0])
def test_it_is_the_oracle_at_every_slot_so_far(
    paper: Config, rewards: NDArray[np.float64], cost: float
) -> None:
    config = paper.replace(reward__movement_cost=cost)
    oracle = so_far(config)
    for slot in (1, 2, 39, 40, 41, 128, 129, 500, SLOTS):
        oracle.advance(slot)
        found, path = oracle.best(), oracle_path(rewards[:slot], config)
        assert found.slot == slot
        assert found.value == pytest.approx(oracle_value(rewards[:slot], config)[0], abs=1e-9)
        earned = rewards[np.arange(slot), path.index]
        assert found.earned == pytest.approx(earned.sum(), abs=1e-9)
        ends = sorted({*range(STRETCH, slot + 1, STRETCH), slot})
        assert found.ends == ends
        np.testing.assert_allclose(found.position, path.position[np.array(ends) - 1])
        begins = [0, *ends[:-1]]
        means = [earned[a:b].mean() for a, b in zip(begins, ends, strict=True)]
        np.testing.assert_allclose(found.reward, means, atol=1e-9)


def test_only_the_last_stretches_are_kept(paper: Config) -> None:
    whole, short = so_far(paper), so_far(paper, stretches=3)
    for oracle in (whole, short):
        oracle.advance(410)
    assert short.best().ends == [320, 360, 400, 410]
    assert short.best().position == whole.best().position[-4:]
    assert short.best().earned == whole.best().earned


def test_it_stops_when_its_time_is_over(paper: Config) -> None:
    oracle = so_far(paper)
    oracle.advance(10_000_000, limit_s=0.05)
    assert 0 < oracle.slot < 100_000
    reached = oracle.slot
    oracle.advance(reached)
    assert oracle.slot == reached
