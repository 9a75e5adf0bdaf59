"""Maps of a real site: from walks along its rail, and from the slots of a run."""

from __future__ import annotations

from math import inf, nan

import numpy as np
import pytest

from macontrol.config import Config, load_config
from macontrol.config.model.errors import DataError
from macontrol.controller.recording.records import Recorder
from macontrol.controller.runtime.clock import VirtualClock
from macontrol.controller.runtime.stop import StopToken
from macontrol.controller.survey.samples import Sample, Survey
from macontrol.controller.survey.walk import rail_walk
from macontrol.sim.bench.simulated import SimulatedBench
from macontrol.sim.research import site
from macontrol.sim.research.site import left_out_error, map_of_slots, map_of_walks
from macontrol.sim.world.channel import reward_rows
from macontrol.sim.world.partial import fill

T0 = 1.7e9


@pytest.fixture(scope="module")
def lab() -> Config:
    """Slots of 0.25 s, 473 positions."""
    return load_config(preset="lab-2g4-grbl", assignments=["survey.samples=61", "run.seed=5"])


def walked(config: Config, times: int) -> list[Survey]:
    """Walks along the simulated rail, there and back."""
    clock = VirtualClock()
    walk = rail_walk(
        config, SimulatedBench(config, clock, seed=5), clock, Recorder(), stop=StopToken()
    )
    for number in range(times):
        positions = config.survey_positions
        walk.run(positions if number % 2 == 0 else positions[::-1])
    return walk.finished


@pytest.fixture(scope="module")
def walks(lab: Config) -> list[Survey]:
    return walked(lab, 4)


def test_each_sample_is_in_the_nearest_cell(lab: Config, walks: list[Survey]) -> None:
    """Where the antenna turns round, two samples are in one slot and one place: their mean."""
    world = map_of_walks("rail", lab, walks)
    assert world.available is not None
    assert world.unix_s is not None
    cells: dict[tuple[int, int], list[float]] = {}
    for sample in (sample for walk in walks for sample in walk.samples):
        row = int(np.argmin(np.abs(world.unix_s - sample.unix_s)))
        column = int(np.argmin(np.abs(lab.grid.points - sample.position)))
        cells.setdefault((row, column), []).append(sample.reward)
    assert sum(map(len, cells.values())) == 4 * 61
    for cell, rewards in cells.items():
        assert world.reward[cell] == pytest.approx(np.mean(rewards))
    assert world.available.sum() == len(cells)
    assert np.isnan(world.reward[~world.available]).all()
    np.testing.assert_allclose(np.diff(world.unix_s), 0.25, atol=1e-6)


def test_an_observation_between_the_walks_has_the_noise_that_the_probe_reported(
    lab: Config, walks: list[Survey]
) -> None:
    world = map_of_walks("rail", lab, walks)
    assert world.noise.std() == pytest.approx(lab.noise_std, rel=0.15)
    np.testing.assert_array_equal(world.noise, map_of_walks("rail", lab, walks).noise)
    unknown = [
        Survey.of([sample._replace(uncertainty=nan) for sample in walk.samples]) for walk in walks
    ]
    assert map_of_walks("rail", lab, unknown).noise.tolist() == [0.0] * world.slots


def test_the_first_walk_is_the_survey_and_the_replay_lies_between_the_outer_walks(
    lab: Config, walks: list[Survey]
) -> None:
    world = map_of_walks("rail", lab, walks)
    np.testing.assert_array_equal(world.survey_position, walks[0].position)
    np.testing.assert_array_equal(world.survey_reward, walks[0].reward)
    filled = fill(world, lab).world
    assert filled.available is None, "every place was measured before and after"
    assert filled.unix_s is not None
    first, last = (np.array([sample.unix_s for sample in walks[n].samples]) for n in (0, -1))
    assert 0 < filled.unix_s[0] - first.max() < 0.5
    assert -0.25 < filled.unix_s[-1] - last.min() < 0.25


def test_the_map_is_the_world_that_was_walked(lab: Config, walks: list[Survey]) -> None:
    """The channel drifts slowly beside the walks, so what differs is the noise of the samples."""
    world = map_of_walks("rail", lab, walks)
    assert world.span is not None
    first, end = world.span
    exact = reward_rows(lab, 5, end + 1)[first:end]
    error = fill(world, lab).world.reward - exact
    assert float(np.sqrt(np.mean(error**2))) < 1.2 * lab.noise_std
    assert float(exact.std()) > 2 * lab.noise_std


def test_a_walk_left_out_is_predicted_by_its_neighbours() -> None:
    def walk(reward: list[float], unix_s: list[float]) -> Survey:
        return Survey.of([Sample(float(x), reward[x], nan, unix_s[x]) for x in (0, 1)])

    walks = [
        walk([1.0, 2.0], [0.0, 1.0]),
        walk([4.0, 6.0], [4.0, 3.0]),  # 1.0 to 3.0 in 4 of 8 s: 2.0; 2.0 to 4.0 in 2 of 6 s: 2.667
        walk([3.0, 4.0], [8.0, 7.0]),
    ]
    expected = np.sqrt(np.mean(np.square([4.0 - 2.0, 6.0 - (2.0 + 2.0 * 2.0 / 6.0)])))
    assert left_out_error(walks) == pytest.approx(expected)


def test_a_walk_without_some_positions_leaves_them_unknown(
    lab: Config, walks: list[Survey]
) -> None:
    """Between 0.5 and 1 λ the second walk has no samples: too far to interpolate in space."""
    holed = [sample for sample in walks[1].samples if not 0.5 < sample.position < 1.0]
    world = map_of_walks("rail", lab, [walks[0], Survey.of(holed), *walks[2:]])
    gap_s = 30.0  # walks are 21 s apart in the middle, two walks 42 s
    filled = fill(world, lab, gap_s).world
    whole = fill(map_of_walks("rail", lab, walks), lab, gap_s).world
    assert filled.available is not None
    column = lab.grid.nearest(0.75)
    lost = np.isnan(filled.reward[:, column]) & ~np.isnan(whole.reward[:, column])
    assert lost.any()
    assert fill(world, lab, 75.0).world.available is None, "a longer gap bridges it in time"


@pytest.mark.parametrize("count", [1, 2])
def test_it_takes_three_walks(lab: Config, walks: list[Survey], count: int) -> None:
    with pytest.raises(DataError, match=f"has {count} walks"):
        map_of_walks("rail", lab, walks[:count])


def test_walks_that_overlap_in_time_are_damage(lab: Config, walks: list[Survey]) -> None:
    with pytest.raises(DataError, match="is damaged"):
        map_of_walks("rail", lab, [walks[3], walks[1], walks[0]])


def test_walks_over_a_year_are_too_large(lab: Config, walks: list[Survey]) -> None:
    late = [sample._replace(unix_s=sample.unix_s + 3e7) for sample in walks[2].samples]
    with pytest.raises(DataError, match="GiB is the limit"):
        map_of_walks("rail", lab, [*walks[:2], Survey.of(late)])


SURVEY = Survey(np.array([0.0, 1.0]), np.array([1.0, 2.0]))


def test_the_slots_of_a_run_are_known_where_the_antenna_was(lab: Config) -> None:
    slot = np.array([7, 8, 10, 11, 12])
    position = np.array([1.0, 1.0024, 1.005, nan, 99.0])
    reward = np.array([2.0, nan, 3.0, 1.0, 1.0])
    world = map_of_slots("run", lab, SURVEY, slot, T0 + 0.25 * slot, position, reward)
    assert world.slots == 6
    assert world.available is not None
    assert np.argwhere(world.available).tolist() == [[0, 200], [3, 201]]
    assert (world.reward[0, 200], world.reward[3, 201]) == (2.0, 3.0)
    assert world.unix_s is not None
    np.testing.assert_allclose(world.unix_s, T0 + 0.25 * np.arange(7, 13))
    np.testing.assert_array_equal(world.survey_reward, SURVEY.reward)
    assert world.noise.tolist() == [0.0] * 6, "the rewards have the noise of their slots"


@pytest.mark.parametrize("reward", [nan, inf, 1e300])
def test_a_run_without_a_reward_has_no_map(lab: Config, reward: float) -> None:
    slot = np.array([1, 2])
    with pytest.raises(DataError, match="has no reward"):
        map_of_slots("run", lab, SURVEY, slot, T0 + slot, np.ones(2), np.full(2, reward))


def test_several_samples_in_one_cell_are_their_mean(lab: Config) -> None:
    first = [Sample(x, 1.0, nan, T0 + x) for x in (0.0, 1.0)]
    second = [Sample(x, 1.0, nan, T0 + 3 + x) for x in (0.0, 1.0)]
    twice = [Sample(x, r, nan, T0 + 6 + x) for x in (0.0, 1.0) for r in (2.0, 4.0)]
    world = map_of_walks("rail", lab, [Survey.of(walk) for walk in (first, second, twice)])
    assert world.reward[24, 0] == 3.0


def test_the_limit_names_the_number_of_slots(
    lab: Config, walks: list[Survey], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "MAP_LIMIT_BYTES", 8 * 473 * 12)
    with pytest.raises(DataError, match="12 or fewer"):
        map_of_walks("rail", lab, walks)
