"""The simulated channel: the drift of its geometry, and its reward as the sum over sub-rays."""

import cmath
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from macontrol.config import Config, load_config
from macontrol.sim.world.channel import (
    Channel,
    blockage_amplitude,
    reward_rows,
    survey_rewards,
)
from macontrol.sim.world.drift import Drift, Geometry, Streams

SEED = 11
VARIANTS = [("blocked", "continuous"), ("blocked", "piecewise"), ("dense", "continuous")]
PHASES = ["aligned", "random"]


@pytest.fixture(scope="module")
def paper() -> Config:
    return load_config()


def naive_phases(config: Config, seed: int) -> NDArray[np.float64]:
    """The phase of every sub-ray: zero, or uniform on [0, 2π), from the tenth stream of a seed."""
    shape = (len(config.channel.path_powers), config.channel.sub_rays)
    if config.channel.sub_ray_phases == "aligned":
        return np.zeros(shape)
    tenth = np.random.SeedSequence(seed).spawn(10)[9]
    return np.random.default_rng(tenth).random(shape) * 2 * math.pi


def naive_reward(
    config: Config, geometry: Geometry, offset: NDArray[np.float64], row: int, position: float
) -> float:
    """Eqs. (multipath) and (reward), term by term."""
    phases = naive_phases(config, SEED)
    rays = config.channel.sub_rays
    divisor = rays if config.channel.sub_ray_phases == "aligned" else math.sqrt(rays)
    h = 0j
    for path in range(len(config.channel.path_powers)):
        field = 0j
        for ray in range(config.channel.sub_rays):
            angle = geometry.angle[row, path] + offset[path, ray]
            turn = cmath.exp(1j * phases[path, ray])
            field += turn * cmath.exp(2j * math.pi * position * math.cos(angle))
        field *= complex(geometry.gain[row, path]) / divisor
        if path == 0 and config.channel.scenario == "blocked":
            begin = geometry.shadow[row]
            end = begin + config.shadow_extent
            edge = config.channel.shadow_edge
            window = math.tanh((position - begin) / edge) - math.tanh((position - end) / edge)
            field *= 10 ** (-config.channel.blockage_db * 0.5 * window / 20)
        h += field
    rate = math.log2(1 + config.reward.snr * abs(h) ** 2)
    return (1 - config.physical.actuation_time_s / config.physical.slot_duration_s) * rate


@pytest.mark.parametrize("phases", PHASES)
@pytest.mark.parametrize(("scenario", "model"), VARIANTS)
def test_map_and_live_reward_are_the_sum_over_sub_rays(
    paper: Config, scenario: str, model: str, phases: str
) -> None:
    config = paper.replace(
        channel__scenario=scenario,
        channel__sub_ray_phases=phases,
        drift__model=model,
        run__horizon=300,
    )
    rows = reward_rows(config, SEED, 300)
    drift = Drift(config, SEED)
    geometry, positions = drift.take(300), config.grid.points
    channel = Channel(config, SEED)
    for slot in (1, 2, 128, 129, 300):
        channel.advance(slot - channel.slot)
        for point in (0, 1, 77, 300, 599, 600):
            position = float(positions[point])
            naive = naive_reward(config, geometry, drift.sub_ray_offset, slot - 1, position)
            assert rows[slot - 1, point] == pytest.approx(naive, abs=1e-11)
            assert channel.reward(position) == pytest.approx(naive, abs=1e-11)
        np.testing.assert_allclose(channel.rewards(positions), rows[slot - 1], atol=1e-11)


def test_live_reward_at_one_position_is_that_at_several(paper: Config) -> None:
    channel = Channel(paper.replace(channel__sub_ray_phases="random"), SEED)
    channel.advance(3)
    positions = np.array([0.0, 1.234, 6.0])
    singly = [channel.reward(float(position)) for position in positions]
    np.testing.assert_allclose(channel.rewards(positions), singly, atol=1e-12)


def test_random_phases_change_the_sub_rays_and_nothing_else(paper: Config) -> None:
    random = paper.replace(channel__sub_ray_phases="random")
    aligned_drift, random_drift = Drift(paper, SEED), Drift(random, SEED)
    assert_same_bits(aligned_drift.take(300), random_drift.take(300))
    np.testing.assert_array_equal(aligned_drift.sub_ray_offset, random_drift.sub_ray_offset)
    assert not np.allclose(reward_rows(paper, SEED, 3), reward_rows(random, SEED, 3))


def test_mean_power_falls_along_the_rail_only_with_aligned_phases(paper: Config) -> None:
    """Aligned sub-rays agree at x = 0 and favour the low end; random ones favour no position."""
    ends = np.array([0.0, 6.0])
    power = {}
    for phases in PHASES:
        config = paper.replace(channel__scenario="dense", channel__sub_ray_phases=phases)
        fields = np.array([Channel(config, seed).fields(ends) for seed in range(1500)])
        power[phases] = (np.abs(fields) ** 2).mean(axis=0)
    # The standard deviation of a Rayleigh power is its mean: 0.03 is one standard error.
    assert power["aligned"] == pytest.approx([1.0, 0.38], abs=0.1)
    assert power["random"] == pytest.approx([1.0, 1.0], abs=0.1)


def test_expansion_holds_on_a_long_rail(paper: Config) -> None:
    config = paper.replace(physical__region_length=60.0, algorithm__grid_spacing=0.06)
    rows = reward_rows(config, SEED, 3)
    channel = Channel(config, SEED)
    channel.advance(3)
    np.testing.assert_allclose(channel.rewards(config.grid.points), rows[2], atol=1e-11)


def test_the_survey_is_the_snapshot_before_the_first_slot(paper: Config) -> None:
    positions, seen = np.array(paper.survey_positions), survey_rewards(paper, SEED)
    assert len(positions) == len(seen) == paper.survey.samples
    assert (positions[0], positions[-1]) == (0.0, paper.physical.region_length)
    assert np.isin(positions, paper.grid.points).all()
    assert np.ptp(np.diff(positions)) < 1.01 * paper.algorithm.grid_spacing
    start = Drift(paper, SEED)
    exact = [naive_reward(paper, start.start, start.sub_ray_offset, 0, x) for x in positions]
    noise = paper.noise_std * Streams.from_seed(SEED).survey_noise.standard_normal(len(seen))
    np.testing.assert_allclose(seen - exact, noise, atol=1e-11)
    assert not np.array_equal(noise[:5], paper.noise_std * first_noise(SEED, 5))


def first_noise(seed: int, slots: int) -> NDArray[np.float64]:
    return Streams.from_seed(seed).noise.standard_normal(slots)


def test_blockage_takes_its_decibels_within_the_shadow_and_none_outside(paper: Config) -> None:
    shadow = 1.5
    inside, outside = np.array([2.9, 3.0, 3.1]), np.array([-1.5, 7.5])
    edges = np.array([shadow, shadow + paper.shadow_extent])
    begin = np.array(shadow)
    full = 10 ** (-paper.channel.blockage_db / 20)
    assert blockage_amplitude(paper, inside, begin) == pytest.approx(full, rel=1e-3)
    assert blockage_amplitude(paper, outside, begin) == pytest.approx(1.0, rel=1e-3)
    assert blockage_amplitude(paper, edges, begin) == pytest.approx(math.sqrt(full), rel=1e-3)
    along = blockage_amplitude(paper, np.linspace(0, 3, 50), begin)
    assert (np.diff(along) < 0).all()


def assert_same_bits(a: Geometry, b: Geometry) -> None:
    np.testing.assert_array_equal(a.angle, b.angle)
    np.testing.assert_array_equal(a.gain, b.gain)
    np.testing.assert_array_equal(a.shadow, b.shadow)


def joined(pieces: list[Geometry]) -> Geometry:
    return Geometry(
        np.concatenate([piece.angle for piece in pieces]),
        np.concatenate([piece.gain for piece in pieces]),
        np.concatenate([piece.shadow for piece in pieces]),
    )


@pytest.mark.parametrize("model", ["continuous", "piecewise"])
def test_slots_are_identical_to_the_bit_in_any_block_size(paper: Config, model: str) -> None:
    config = paper.replace(drift__model=model, run__horizon=150)
    whole = Drift(config, SEED).take(37 * 11)
    for size in (1, 37):
        drift = Drift(config, SEED)
        assert_same_bits(joined([drift.take(size) for _ in range(37 * 11 // size)]), whole)


@pytest.mark.parametrize("model", ["continuous", "piecewise"])
def test_a_shorter_map_is_the_beginning_of_a_longer_one(paper: Config, model: str) -> None:
    config = paper.replace(drift__model=model, run__horizon=400)
    np.testing.assert_array_equal(
        reward_rows(config, SEED, 201), reward_rows(config, SEED, 400)[:201]
    )


def test_live_noise_is_that_of_the_stream(paper: Config) -> None:
    channel = Channel(paper, SEED)
    assert channel.noise == 0.0
    noise = []
    for _ in range(300):
        channel.advance()
        noise.append(channel.noise)
    np.testing.assert_array_equal(noise, paper.noise_std * first_noise(SEED, 300))


def test_quantities_are_independent(paper: Config) -> None:
    plain = Drift(paper, SEED).take(50)
    assert_same_bits(Drift(paper.replace(channel__sub_rays=5), SEED).take(50), plain)
    other = Drift(paper.replace(drift__angle_step_deg=0.3), SEED).take(50)
    np.testing.assert_array_equal(plain.gain, other.gain)
    np.testing.assert_array_equal(plain.shadow, other.shadow)
    assert not np.array_equal(plain.angle, other.angle)


def test_sub_rays_spread_around_their_path(paper: Config) -> None:
    offset = np.rad2deg(Drift(paper.replace(channel__sub_rays=4000), SEED).sub_ray_offset)
    assert offset.shape == (3, 4000)
    assert offset.std(axis=1) == pytest.approx(paper.channel.angular_spread_deg, rel=0.05)
    assert (np.abs(offset.mean(axis=1)) < 4 * 2 / math.sqrt(4000)).all()


def test_the_start_has_its_distribution(paper: Config) -> None:
    starts = joined([Drift(paper, seed).start for seed in range(3000)])
    low, high = np.deg2rad(paper.channel.sector_deg)
    assert starts.angle.min() >= low
    assert starts.angle.max() <= high
    assert starts.angle.mean() == pytest.approx((low + high) / 2, abs=4 * 0.6 / 94)
    assert starts.angle.std() == pytest.approx((high - low) / math.sqrt(12), rel=0.03)
    powers = np.array(paper.channel.path_powers)
    # The standard deviation of the power of a complex Gaussian is its mean.
    error = powers / math.sqrt(len(starts.gain))
    assert (np.abs((np.abs(starts.gain) ** 2).mean(axis=0) - powers) < 4 * error).all()
    assert (np.abs((starts.gain**2).mean(axis=0)) < 5 * error).all()
    assert 0 <= starts.shadow.min() < 0.01
    assert starts.shadow.max() == pytest.approx(paper.physical.region_length / 2, abs=0.01)
    assert starts.shadow.mean() == pytest.approx(1.5, abs=4 * 0.866 / 54)


def test_gains_keep_their_power_and_decorrelate_at_their_rate(paper: Config) -> None:
    rho = 0.8
    gain = Drift(paper.replace(drift__gain_correlation=rho), SEED).take(60_000).gain
    powers = np.array(paper.channel.path_powers)
    independent = len(gain) * (1 - rho**2) / (1 + rho**2)
    error = powers / math.sqrt(independent)
    assert (np.abs((np.abs(gain) ** 2).mean(axis=0) - powers) < 4 * error).all()
    lagged = (gain[1:] * gain[:-1].conj()).mean(axis=0)
    assert (np.abs(lagged - rho * powers) < 5 * error).all()


def test_angles_revert_to_their_start_with_gaussian_steps(paper: Config) -> None:
    rho = paper.drift.angle_correlation
    drift = Drift(paper, SEED)
    angle = np.concatenate((drift.start.angle, drift.take(20_000).angle))
    step = np.rad2deg(angle[1:] - rho * angle[:-1] - (1 - rho) * angle[0])
    assert step.std() == pytest.approx(paper.drift.angle_step_deg, rel=0.02)
    assert abs(step.mean()) < 4 * paper.drift.angle_step_deg / math.sqrt(step.size)
    assert np.abs(np.corrcoef(step.T) - np.eye(3)).max() < 4 / math.sqrt(len(step))


def test_shadow_takes_gaussian_steps_and_stays_on_the_rail(paper: Config) -> None:
    drift = Drift(paper, SEED)
    shadow = np.concatenate((drift.start.shadow, drift.take(20_000).shadow))
    home, limit = shadow[0], paper.physical.region_length - paper.shadow_extent
    assert shadow.min() >= 0
    assert shadow.max() <= limit
    step = shadow[1:] - shadow[:-1] - paper.drift.shadow_reversion * (home - shadow[:-1])
    free = (shadow[1:] > 0) & (shadow[1:] < limit)
    assert step[free].std() == pytest.approx(paper.drift.shadow_step, rel=0.03)


def test_shadow_reverts_to_its_start(paper: Config) -> None:
    config = paper.replace(drift__shadow_reversion=0.5, drift__shadow_step=0.0)
    drift = Drift(config, SEED)
    assert (drift.take(5).shadow == drift.start.shadow).all()
    config = paper.replace(drift__shadow_reversion=0.5)
    drift = Drift(config, SEED)
    shadow = drift.take(20_000).shadow
    assert shadow.std() == pytest.approx(0.01 / math.sqrt(1 - 0.5**2), rel=0.05)
    assert shadow.mean() == pytest.approx(drift.start.shadow[0], abs=0.001)


def test_a_shadow_that_covers_the_rail_does_not_move(paper: Config) -> None:
    config = paper.replace(channel__shadow_extent=6.0)
    assert (Drift(config, SEED).take(100).shadow == 0).all()


@pytest.mark.parametrize("changes", [0, 7, 199])
def test_piecewise_geometry_changes_s_times_per_horizon(paper: Config, changes: int) -> None:
    config = paper.replace(drift__model="piecewise", drift__change_points=changes, run__horizon=200)
    drift = Drift(config, SEED)
    geometry = drift.take(600)
    differs = np.flatnonzero((np.diff(geometry.angle, axis=0) != 0).all(axis=1)) + 2
    assert len(differs) == 3 * changes
    for horizon in range(3):
        within = differs[(differs > 200 * horizon) & (differs <= 200 * (horizon + 1))]
        assert len(within) == changes
        assert 200 * horizon + 1 not in within
    np.testing.assert_array_equal(geometry.angle[0], drift.start.angle[0])
    rows = reward_rows(config, SEED, 600)
    np.testing.assert_array_equal(np.flatnonzero(np.diff(rows, axis=0).any(axis=1)) + 2, differs)
    if changes == 7:
        assert not np.array_equal(differs[:7], differs[7:14] - 200)


def test_automatic_change_points_are_the_root_of_the_horizon(paper: Config) -> None:
    config = paper.replace(drift__model="piecewise", run__horizon=1000)
    gain = Drift(config, SEED).take(1000).gain
    assert np.count_nonzero(np.diff(gain[:, 0])) == 32


def test_change_points_are_spread_over_the_horizon(paper: Config) -> None:
    config = paper.replace(drift__model="piecewise", drift__change_points=1, run__horizon=11)
    counts = np.zeros(12)
    gain = Drift(config, SEED).take(11 * 2000).gain[:, 0].reshape(2000, 11)
    for slot in range(2, 12):
        counts[slot] = np.count_nonzero(gain[:, slot - 1] != gain[:, slot - 2])
    assert counts.sum() == 2000
    assert (np.abs(counts[2:] - 200) < 4 * math.sqrt(200)).all()


def test_a_change_perturbs_angles_refreshes_gains_and_moves_the_shadow(paper: Config) -> None:
    config = paper.replace(drift__model="piecewise", drift__change_points=8000, run__horizon=8001)
    geometry = Drift(config, SEED).take(8001)
    turn = np.rad2deg(np.diff(geometry.angle, axis=0))
    assert turn.std() == pytest.approx(config.drift.change_angle_deg, rel=0.03)
    powers = np.array(config.channel.path_powers)
    error = powers / math.sqrt(8000)
    fresh = geometry.gain[1:] - 0.5 * geometry.gain[:-1]
    assert (np.abs((np.abs(fresh) ** 2).mean(axis=0) - 0.75 * powers) < 4 * error).all()
    assert (np.abs((fresh * geometry.gain[:-1].conj()).mean(axis=0)) < 4 * error).all()
    assert geometry.shadow.mean() == pytest.approx(1.5, abs=4 * 0.866 / 89)
    assert abs(np.corrcoef(geometry.shadow[1:], geometry.shadow[:-1])[0, 1]) < 4 / 89


def test_dense_scenario_differs_by_the_blockage_alone(paper: Config) -> None:
    dense = reward_rows(paper.replace(channel__scenario="dense"), SEED, 5)
    unblocked = reward_rows(paper.replace(channel__blockage_db=0.0), SEED, 5)
    np.testing.assert_array_equal(dense, unblocked)
    assert not np.allclose(dense, reward_rows(paper, SEED, 5))


def test_a_single_path_may_be_blocked(paper: Config) -> None:
    config = paper.replace(channel__path_powers=(1.0,))
    channel = Channel(config, SEED)
    channel.advance()
    rows = reward_rows(config, SEED, 1)
    np.testing.assert_allclose(channel.rewards(config.grid.points), rows[0], atol=1e-11)
    assert channel.reward(3.0) == pytest.approx(rows[0, 300], abs=1e-11)
