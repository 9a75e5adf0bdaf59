"""The multipath channel and its reward (eqs. multipath, reward): at a position, and on the grid.

A live loop needs the reward at one position: the plain sum over sub-rays. A reward map needs all
positions of the grid in every slot. For a map the Jacobi–Anger expansion

    exp(j z cos θ) = Σ_k (2 − δ_k0) j^k J_k(z) cos kθ,   z = 2πx,

separates position from angle: the sub-rays of a path become one complex number per order, and a
map becomes a real matrix product.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import jv

from macontrol.config import Config
from macontrol.config.model.grid import Grid
from macontrol.config.model.reward import reward_of, rewards_of
from macontrol.config.model.units import amplitude_from_db
from macontrol.sim.world.drift import Drift, Geometry, Streams

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]

BLOCK_SLOTS = 128
"""Slots per block of computation: large enough to be fast, small enough for the cache."""

NEGLIGIBLE = 1e-17
"""The expansion ends at the first order whose Bessel function is below this."""


def is_blocked(config: Config) -> bool:
    """Whether an obstacle attenuates the line of sight."""
    return config.channel.scenario == "blocked" and config.channel.blockage_db > 0


def blockage_amplitude(config: Config, position: Floats, shadow: Floats) -> Floats:
    """The factor on the line of sight: −A_b dB over [s, s + extent], with soft tanh edges."""
    edge = config.channel.shadow_edge
    depth = (position - shadow) / edge
    window = np.tanh(depth)
    depth -= config.shadow_extent / edge
    window -= np.tanh(depth, out=depth)
    window *= -0.5 * config.channel.blockage_db * math.log(10.0) / 20.0
    return np.exp(window, out=window)


class Channel:
    """The channel of one realization for a live loop: slot by slot, at any position.

    It starts at slot 0, the frozen snapshot that the survey sees. For the same seed it agrees
    with `reward_rows` and with the noise of `simulate_map`.
    """

    def __init__(self, config: Config, seed: int) -> None:
        self._config = config
        self._drift = Drift(config, seed)
        self._noise_stream = Streams.from_seed(seed).noise
        self._blocked = is_blocked(config)
        self._share = config.physical.transmission_share
        self._snr = config.reward.snr
        self._rays = config.channel.sub_rays
        self._slot = 0
        self._ahead = self._drift.start
        self._ahead_noise = np.zeros(1)
        self._row = 0
        self._set_rays()

    @property
    def slot(self) -> int:
        """The current slot of the channel."""
        return self._slot

    @property
    def noise(self) -> float:
        """eps_t: the noise of this slot's observation (eq. observation); none at slot 0."""
        return float(self._ahead_noise[self._row])

    def advance(self, slots: int = 1) -> None:
        """Let the geometry drift by a number of slots."""
        for _ in range(slots):
            self._row += 1
            if self._row == len(self._ahead.shadow):
                self._ahead = self._drift.take(BLOCK_SLOTS)
                self._ahead_noise = self._config.noise_std * self._noise_stream.standard_normal(
                    BLOCK_SLOTS
                )
                self._row = 0
        self._slot += slots
        self._set_rays()

    def field(self, position: float) -> complex:
        """h_t(x) of eq. (multipath), with the line of sight attenuated in the shadow."""
        rays = np.exp(self._phase * position)
        rays *= self._weight
        scattered = complex(rays[self._rays :].sum())
        return self._line_of_sight(position) * complex(rays[: self._rays].sum()) + scattered

    def fields(self, positions: Floats) -> Complexes:
        """h_t(x) at several positions."""
        rays = np.exp(np.multiply.outer(positions, self._phase))
        line_of_sight = rays[..., : self._rays] @ self._weight[: self._rays]
        if self._blocked:
            line_of_sight *= blockage_amplitude(
                self._config, positions, self._ahead.shadow[self._row]
            )
        return np.asarray(line_of_sight + rays[..., self._rays :] @ self._weight[self._rays :])

    def reward(self, position: float) -> float:
        """g_t(x) of eq. (reward), without noise."""
        h = self.field(position)
        power = h.real * h.real + h.imag * h.imag
        return reward_of(self._share, self._snr * power)

    def rewards(self, positions: Floats) -> Floats:
        """g_t(x) at several positions, without noise."""
        h = self.fields(positions)
        return rewards_of(self._share, self._snr * (h.real**2 + h.imag**2))

    def _set_rays(self) -> None:
        """Phase per wavelength and weight of every sub-ray of the slot, path after path."""
        angle = self._ahead.angle[self._row][:, np.newaxis] + self._drift.sub_ray_offset
        self._phase: Complexes = 2j * math.pi * np.cos(angle).ravel()
        self._weight: Complexes = np.repeat(self._ahead.gain[self._row] / self._rays, self._rays)
        if self._drift.sub_ray_turn is not None:
            self._weight *= self._drift.sub_ray_turn.ravel()

    def _line_of_sight(self, position: float) -> float:
        """`blockage_amplitude` for one position, without the overhead of arrays."""
        if not self._blocked:
            return 1.0
        channel = self._config.channel
        depth = (position - float(self._ahead.shadow[self._row])) / channel.shadow_edge
        width = self._config.shadow_extent / channel.shadow_edge
        window = 0.5 * (math.tanh(depth) - math.tanh(depth - width))
        return amplitude_from_db(-channel.blockage_db * window)


def reward_rows(config: Config, seed: int, slots: int) -> Floats:
    """g_t over the grid for t = 1 … slots, one row per slot, without noise.

    Every block is computed at full size, so that a shorter map is the beginning of a longer one,
    to the bit.
    """
    drift = Drift(config, seed)
    geometry = drift.take(slots)
    first = _first_of_equals(geometry)
    expansion = _Expansion(config, drift.sub_ray_offset, drift.sub_ray_turn)
    if len(first) == slots:
        rows = np.empty((slots, config.grid_size))
        expansion.fill(rows, geometry)
        return rows
    rows = np.empty((len(first), config.grid_size))
    distinct = Geometry(geometry.angle[first], geometry.gain[first], geometry.shadow[first])
    expansion.fill(rows, distinct)
    return np.repeat(rows, np.diff([*first, slots]), axis=0)


def reward_blocks(config: Config, seed: int) -> Iterator[Floats]:
    """The rows of `reward_rows` without end, BLOCK_SLOTS at a time, in an array used again."""
    drift = Drift(config, seed)
    expansion = _Expansion(config, drift.sub_ray_offset, drift.sub_ray_turn)
    rows = np.empty((BLOCK_SLOTS, config.grid_size))
    while True:
        expansion.fill(rows, drift.take(BLOCK_SLOTS))
        yield rows


def survey_rewards(config: Config, seed: int, positions: Floats | None = None) -> Floats:
    """The survey of the paper: g_0 at some positions (wavelengths), with observation noise."""
    at = np.array(config.survey_positions) if positions is None else positions
    return Channel(config, seed).rewards(at) + survey_noise(config, seed, len(at))


def survey_noise(config: Config, seed: int, samples: int) -> Floats:
    """The observation noise of the samples of a survey."""
    return config.noise_std * Streams.from_seed(seed).survey_noise.standard_normal(samples)


def _first_of_equals(geometry: Geometry) -> NDArray[np.intp]:
    """The rows at which the geometry differs from the row before; row 0 is one of them."""
    differs = np.any(np.diff(geometry.angle, axis=0) != 0, axis=1)
    differs |= np.any(np.diff(geometry.gain, axis=0) != 0, axis=1)
    differs |= np.diff(geometry.shadow) != 0
    return np.flatnonzero(np.concatenate(([True], differs)))


class _Expansion:
    """The Jacobi–Anger expansion on the grid, for the sub-rays of one realization."""

    def __init__(self, config: Config, sub_ray_offset: Floats, turn: Complexes | None) -> None:
        self._config = config
        self._points = config.grid.points
        self._order, self._basis = _basis(config.grid)
        self._evens = (len(self._order) + 1) // 2
        # Aligned: (1/R) Σ_j cos k(θ + δ_j) = |m_k| cos(kθ + arg m_k), m_k = (1/R) Σ_j exp(jkδ_j).
        # Turned by u_j: (1/R) Σ_j u_j cos k(θ + δ_j) = a_k cos kθ − b_k sin kθ, with the complex
        # a_k = (1/R) Σ_j u_j cos kδ_j and b_k = (1/R) Σ_j u_j sin kδ_j.
        phases = np.multiply.outer(sub_ray_offset, self._order)
        self._turned = turn is not None
        if turn is None:
            mean: Complexes = np.exp(1j * phases).mean(axis=1)
            self._mean_size = np.abs(mean)
            self._mean_phase = np.angle(mean)
        else:
            self._mean_cosine = (turn[..., np.newaxis] * np.cos(phases)).mean(axis=1)
            self._mean_sine = (turn[..., np.newaxis] * np.sin(phases)).mean(axis=1)

    def fill(self, rows: Floats, geometry: Geometry) -> None:
        """Write the reward over the grid into `rows`, one row for each row of the geometry."""
        size = (BLOCK_SLOTS, self._config.grid_size)
        work = (np.empty(size), np.empty(size), np.empty(size))
        for begin in range(0, len(rows), BLOCK_SLOTS):
            length = min(BLOCK_SLOTS, len(rows) - begin)
            # The last row pads the last block: see `reward_rows`.
            pick = np.minimum(np.arange(begin, begin + BLOCK_SLOTS), len(rows) - 1)
            block = Geometry(geometry.angle[pick], geometry.gain[pick], geometry.shadow[pick])
            rows[begin : begin + length] = self._block(block, *work)[:length]

    def _block(self, geometry: Geometry, real: Floats, imag: Floats, path: Floats) -> Floats:
        """The reward over the grid for a block of slots, in one of the work arrays."""
        config = self._config
        if not is_blocked(config):
            self._sum_paths(geometry.gain, self._response(geometry.angle), real, imag)
        elif self._turned:
            self._fill_turned(geometry, real, imag, path)
        else:
            self._fill_aligned(geometry, real, imag, path)
        real *= real
        imag *= imag
        real += imag
        real *= config.reward.snr
        return rewards_of(config.physical.transmission_share, real, out=real)

    def _response(self, angle: Floats) -> Floats | Complexes:
        """The weight of each order of each path at unit gain; real for aligned sub-rays."""
        phase = np.multiply.outer(angle, self._order)
        if self._turned:
            return np.asarray(np.cos(phase) * self._mean_cosine - np.sin(phase) * self._mean_sine)
        phase += self._mean_phase
        np.cos(phase, out=phase)
        phase *= self._mean_size
        return phase

    def _fill_aligned(self, geometry: Geometry, real: Floats, imag: Floats, path: Floats) -> None:
        """Write h over the grid into `real` and `imag`, up to one common phase per slot."""
        config, evens, basis = self._config, self._evens, self._basis
        response = self._response(geometry.angle)
        # A common phase of all paths does not change |h|: make the line of sight real.
        gain = geometry.gain
        size = np.abs(gain[:, :1])
        turn = np.divide(gain[:, :1].conj(), size, out=np.ones_like(gain[:, :1]), where=size > 0)
        self._sum_paths(gain[:, 1:] * turn, response[:, 1:], real, imag)
        factor = blockage_amplitude(config, self._points, geometry.shadow[:, np.newaxis])
        sight = size * response[:, 0]
        for part, orders in ((real, slice(None, evens)), (imag, slice(evens, None))):
            np.matmul(sight[:, orders], basis[orders], out=path)
            path *= factor
            part += path

    def _fill_turned(self, geometry: Geometry, real: Floats, imag: Floats, path: Floats) -> None:
        """Write h over the grid into `real` and `imag`."""
        response = self._response(geometry.angle)
        self._sum_paths(geometry.gain[:, :1], response[:, :1], real, imag)
        factor = blockage_amplitude(self._config, self._points, geometry.shadow[:, np.newaxis])
        scattered = self._parts(geometry.gain[:, 1:], response[:, 1:])
        for sight, rest in zip((real, imag), scattered, strict=True):
            sight *= factor
            sight += np.matmul(rest, self._basis, out=path)

    def _sum_paths(
        self, gain: Complexes, response: Floats | Complexes, real: Floats, imag: Floats
    ) -> None:
        """Write the sum of the paths into `real` and `imag`."""
        for out, part in zip((real, imag), self._parts(gain, response), strict=True):
            np.matmul(part, self._basis, out=out)

    def _parts(self, gain: Complexes, response: Floats | Complexes) -> tuple[Floats, Floats]:
        """The weight of each order in Re h and in Im h, summed over paths; odd orders have a j."""
        evens = self._evens
        weight = np.einsum("tl,tlk->tk", gain, response)
        return (
            np.concatenate((weight.real[:, :evens], -weight.imag[:, evens:]), axis=1),
            np.concatenate((weight.imag[:, :evens], weight.real[:, evens:]), axis=1),
        )


@lru_cache(maxsize=2)
def _basis(grid: Grid) -> tuple[NDArray[np.int_], Floats]:
    """The orders of the expansion, even ones first, and (2 − δ_k0) j^k J_k(2πx) for each.

    Odd orders lack one factor j, which `_parts` accounts for, so that the basis is real. Bessel
    functions are slow and realizations share the basis, so the last results are cached.
    """
    order = np.arange(order_count(2 * math.pi * grid.length))
    order = np.concatenate((order[0::2], order[1::2]))
    factor = np.where(order // 2 % 2 == 0, 1.0, -1.0) * np.where(order == 0, 1.0, 2.0)
    z = 2 * math.pi * grid.points
    basis: Floats = factor[:, np.newaxis] * jv(order[:, np.newaxis], z)
    for array in (order, basis):
        array.setflags(write=False)
    return order, basis


def order_count(z_max: float) -> int:
    """The number of orders of the expansion: for k > z, J_k(z) falls ever faster in k."""
    order = math.ceil(z_max)
    while jv(order, z_max) > NEGLIGIBLE:
        order += 1
    return order
