"""The worlds ieee-a … ieee-f: the indoor channel models of IEEE 802.11 (TGn), by quadriga-lib.

These models share nothing with the paper's channel: up to 42 taps of 20 sub-rays each, from given
clusters, and an environment that moves with a bell-shaped Doppler spectrum. quadriga-lib takes the
rail as a receiver with one antenna per position, which is slow. But the field along the rail is a
sum of plane waves: on D wavelengths it has no more than πD radians to either side of its centre, so
a polynomial through a few more than πD Chebyshev points gives it everywhere to rounding. So the
library computes 51 positions of a rail of 6 λ, and one matrix product gives all 601.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from macontrol.config import Config
from macontrol.config.model.errors import UsageError
from macontrol.config.model.grid import are_apart
from macontrol.config.model.reward import rewards_of
from macontrol.config.model.suggestion import pip_install
from macontrol.config.model.units import SPEED_OF_LIGHT_M_PER_S
from macontrol.sim.world.channel import order_count, survey_noise
from macontrol.sim.world.drift import Streams
from macontrol.sim.world.rewardmap import RewardMap

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]

MODELS = "ABCDEF"
SLOW, FAST = 0.0005, 0.003
"""Speeds of the environment in wavelengths per slot: V_T/T is about 0.015 and 0.08."""
DISTANCE_M = 5.0
"""From the transmitter to the rail: without a line of sight in A, B and C, with one in D, E, F."""
_LARGEST_BLOCK = 2**23
"""Coefficients that the library computes at once: it needs about 50 bytes for each."""
_MOST_PATHS = 42


def simulate_ieee(model: str, config: Config, seed: int, slots: int, speed: float) -> RewardMap:
    """The reward map of one realization of a model.

    The SNR of the config is the mean over slots 1 … T and the rail: `reward.snr_db` at unit power.
    """
    grid = config.grid
    points = grid.points
    nodes, weights = chebyshev_points(grid.length, order_count(np.pi * grid.length))
    at_nodes = rail_fields(model, config, seed, slots, speed, nodes)
    power = np.abs(at_nodes @ interpolation(nodes, weights, points).T) ** 2
    survey_position = np.array(config.survey_positions)
    survey = np.abs(interpolation(nodes, weights, survey_position) @ at_nodes[0]) ** 2
    scale = config.reward.snr / power[1:].mean()
    share = config.physical.transmission_share
    return RewardMap(
        rewards_of(share, scale * power[1:]),
        config.noise_std * Streams.from_seed(seed).noise.standard_normal(slots),
        survey_position,
        rewards_of(share, scale * survey) + survey_noise(config, seed, len(survey)),
    )


def rail_fields(
    model: str, config: Config, seed: int, slots: int, speed: float, positions: Floats
) -> Complexes:
    """h_t(x) for t = 0 … T (rows) at positions in wavelengths, as quadriga-lib computes it.

    The library keeps the mean power of every tap over the observed time, so a shorter world is not
    the beginning of a longer one.
    """
    library = quadriga()
    slot_s = config.physical.slot_duration_s
    wavelength_m = config.physical.wavelength_mm * 1e-3
    antenna = library.arrayant.generate("omni")
    antenna["center_freq"] = SPEED_OF_LIGHT_M_PER_S / wavelength_m
    # The library draws from the seed and from the next one; hashed seeds have no neighbours.
    library_seed = int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0] >> 2)
    size = max(1, _LARGEST_BLOCK // ((slots + 1) * _MOST_PATHS))
    fields = np.empty((slots + 1, len(positions)), dtype=np.complex128)
    for begin in range(0, len(positions), size):
        part = slice(begin, begin + size)
        (channel,) = library.channel.get_ieee_indoor(
            antenna,
            _line_of_antennas(antenna, positions[part] * wavelength_m),
            model,
            CarrierFreq_Hz=config.physical.carrier_frequency_hz,
            # Half a slot more, so that rounding loses no snapshot.
            observation_time=(slots + 0.5) * slot_s,
            update_rate=slot_s,
            speed_env_kmh=speed * wavelength_m / slot_s * 3.6,
            Dist_m=np.array([DISTANCE_M]),
            seed=library_seed,
            Doppler_effect=0.0,
        )
        for row, coefficients in zip(fields[:, part], channel["coeff"], strict=True):
            coefficients.sum(axis=(1, 2), out=row)
    return fields


def chebyshev_points(length: float, count: int) -> tuple[Floats, Floats]:
    """Chebyshev points on [0, length], both ends included, and their barycentric weights."""
    turn = np.arange(count) * (np.pi / (count - 1))
    weights = np.where(np.arange(count) % 2 == 0, 1.0, -1.0)
    weights[[0, -1]] /= 2
    return length * np.sin(turn / 2) ** 2, weights


def interpolation(nodes: Floats, weights: Floats, positions: Floats) -> Floats:
    """The matrix from values at the nodes to values of their polynomial at positions."""
    distance = np.subtract.outer(positions, nodes)
    is_node = ~are_apart(positions[:, np.newaxis], nodes)
    matrix = weights / np.where(is_node, 1.0, distance)
    matrix /= matrix.sum(axis=1, keepdims=True)
    return np.asarray(np.where(is_node.any(axis=1, keepdims=True), is_node, matrix))


def quadriga() -> ModuleType:
    """The library; UsageError if it is not installed."""
    try:
        import quadriga_lib
    except ImportError as error:
        raise UsageError(
            f"the worlds ieee-a … ieee-f need quadriga-lib, which cannot be imported: {error}",
            pip_install("quadriga-lib"),
        ) from error
    module: ModuleType = quadriga_lib
    return module


def _line_of_antennas(antenna: dict[str, Any], positions_m: Floats) -> dict[str, Any]:
    """A receiver with one such antenna at each position, without coupling between them."""
    count = len(positions_m)
    patterns = {
        name: np.asfortranarray(np.repeat(value, count, axis=2))
        for name, value in antenna.items()
        if name.startswith("e_")
    }
    places = np.zeros((3, count), order="F")
    places[0] = positions_m
    coupling = {
        "coupling_re": np.eye(count, order="F"),
        "coupling_im": np.zeros((count, count), order="F"),
    }
    return antenna | patterns | coupling | {"element_pos": places}
