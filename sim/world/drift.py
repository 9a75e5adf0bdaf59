"""How the geometry of the channel changes from slot to slot (Drift models of the paper).

All randomness comes from one seed, split into one stream per quantity, so that quantities do not
influence each other. Every stream is consumed slot by slot, so that the slots are identical to
the bit whether they are taken one at a time, in blocks, or all at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from macontrol.config import Config

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]


class Streams(NamedTuple):
    """One random stream per quantity. A new one must come last, or all realizations change."""

    start_angle: np.random.Generator
    angle_step: np.random.Generator
    gain: np.random.Generator
    shadow: np.random.Generator
    sub_ray: np.random.Generator
    noise: np.random.Generator
    survey_noise: np.random.Generator
    change_point: np.random.Generator
    change: np.random.Generator
    sub_ray_phase: np.random.Generator

    @classmethod
    def from_seed(cls, seed: int) -> Streams:
        children = np.random.SeedSequence(seed).spawn(len(cls._fields))
        return cls(*(np.random.default_rng(child) for child in children))


@dataclass(frozen=True)
class Geometry:
    """The geometry of consecutive slots, one row per slot; the last axis is the path."""

    angle: Floats
    """Mean angles of arrival, in radians."""
    gain: Complexes
    """Path gains, line of sight first."""
    shadow: Floats
    """The start of the shadow, in wavelengths."""


class Drift:
    """The geometry of one realization: `start` is slot 0, `take` gives the next slots."""

    def __init__(self, config: Config, seed: int) -> None:
        self._config = config
        streams = Streams.from_seed(seed)
        self._streams = streams
        powers = np.array(config.channel.path_powers)
        paths = len(powers)
        self._deviation = np.sqrt(powers)
        low, high = np.deg2rad(config.channel.sector_deg)
        spread = math.radians(config.channel.angular_spread_deg)
        # The gains of eq. (multipath) start from the stationary law of their recursion.
        gain = self._deviation * _complex_normal(streams.gain, 1, paths)
        angle = low + (high - low) * streams.start_angle.random((1, paths))
        self._shadow_limit = config.physical.region_length - config.shadow_extent
        shadow = self._shadow_limit * streams.shadow.random(1)

        self.start = Geometry(angle, gain, shadow)
        self.sub_ray_offset: Floats = spread * streams.sub_ray.standard_normal(
            (paths, config.channel.sub_rays)
        )
        """Angle offsets of the sub-rays of each path in radians, fixed for the realization."""
        self.sub_ray_turn = _sub_ray_turns(config, streams.sub_ray_phase)
        """The complex factor of each sub-ray on gain / sub_rays; None for aligned sub-rays."""
        self.slot = 0
        """The last slot that was taken."""

        self._angle_deviation = np.zeros(paths)
        self._gain = gain[0]
        self._shadow = float(shadow[0])
        self._held = self.start
        self._change_slots: list[int] = []
        self._horizons_drawn = 0

    def take(self, slots: int) -> Geometry:
        """The geometry of the next `slots` slots."""
        if self._config.drift.model == "continuous":
            taken = Geometry(
                self._next_angles(slots), self._next_gains(slots), self._next_shadows(slots)
            )
        else:
            taken = self._next_held(slots)
        self.slot += slots
        return taken

    def _next_angles(self, slots: int) -> Floats:
        """theta <- rho theta + (1 − rho) theta_0 + N(0, sigma_theta), as theta_0 + deviation."""
        drift = self._config.drift
        steps = math.radians(drift.angle_step_deg) * self._streams.angle_step.standard_normal(
            (slots, len(self._deviation))
        )
        deviation = _recur(drift.angle_correlation, self._angle_deviation, steps)
        self._angle_deviation = deviation[-1]
        return np.asarray(self.start.angle + deviation)

    def _next_gains(self, slots: int) -> Complexes:
        """alpha <- rho alpha + sqrt(1 − rho²) sqrt(p) CN(0, 1), which keeps the path powers."""
        rho = self._config.drift.gain_correlation
        steps = (math.sqrt(1.0 - rho * rho) * self._deviation) * _complex_normal(
            self._streams.gain, slots, len(self._deviation)
        )
        parts = _recur(rho, self._gain.view(np.float64), steps.view(np.float64))
        gains = parts.view(np.complex128)
        self._gain = gains[-1]
        return gains

    def _next_shadows(self, slots: int) -> Floats:
        """s <- s + reversion (s_0 − s) + sigma_s N(0, 1), kept on the rail."""
        drift, limit = self._config.drift, self._shadow_limit
        home, reversion = float(self.start.shadow[0]), drift.shadow_reversion
        steps = drift.shadow_step * self._streams.shadow.standard_normal(slots)
        shadow = self._shadow
        shadows = []
        for step in steps.tolist():
            shadow += reversion * (home - shadow) + step
            shadow = min(max(shadow, 0.0), limit)
            shadows.append(shadow)
        self._shadow = shadow
        return np.array(shadows)

    def _next_held(self, slots: int) -> Geometry:
        """The geometry of the piecewise model: held, except at its change points."""
        first, end = self.slot + 1, self.slot + slots + 1
        bounds = [first, *self._take_change_slots(end), end]
        pieces = [self._held]
        for _ in bounds[2:]:
            self._held = self._reconfigured(self._held)
            pieces.append(self._held)
        lengths = np.diff(bounds)
        return Geometry(
            np.repeat(np.concatenate([piece.angle for piece in pieces]), lengths, axis=0),
            np.repeat(np.concatenate([piece.gain for piece in pieces]), lengths, axis=0),
            np.repeat(np.concatenate([piece.shadow for piece in pieces]), lengths),
        )

    def _take_change_slots(self, end: int) -> list[int]:
        """The change points before slot `end` that have not been taken yet.

        Each horizon of T slots has S of them, uniformly at random in its slots 2 … T, so that
        all of them count in V_T. After the horizon of a live run the next horizon begins.
        """
        horizon = self._config.run.horizon
        while self._horizons_drawn * horizon < end - 1:
            before = self._horizons_drawn * horizon
            drawn = self._streams.change_point.choice(
                horizon - 1, size=self._config.change_points, replace=False
            )
            self._change_slots += sorted(before + 2 + int(offset) for offset in drawn)
            self._horizons_drawn += 1
        taken = [slot for slot in self._change_slots if slot < end]
        self._change_slots = self._change_slots[len(taken) :]
        return taken

    def _reconfigured(self, held: Geometry) -> Geometry:
        """The geometry after a change point: new angles, partly new gains, another shadow."""
        drift, stream = self._config.drift, self._streams.change
        keep = drift.change_gain_retention
        turn = math.radians(drift.change_angle_deg) * stream.standard_normal(held.angle.shape)
        fresh = self._deviation * _complex_normal(stream, *held.gain.shape)
        return Geometry(
            held.angle + turn,
            keep * held.gain + math.sqrt(1.0 - keep * keep) * fresh,
            self._shadow_limit * stream.random(1),
        )


def _sub_ray_turns(config: Config, stream: np.random.Generator) -> Complexes | None:
    """√R·exp(jψ) with ψ uniform on [0, 2π) for each of the R sub-rays of each path.

    With √R, sub-rays of random phases keep the mean power of their path, because powers add.
    Aligned sub-rays keep it at x = 0, where amplitudes add.
    """
    if config.channel.sub_ray_phases == "aligned":
        return None
    shape = (len(config.channel.path_powers), config.channel.sub_rays)
    phase = 2 * math.pi * stream.random(shape)
    return np.asarray(math.sqrt(config.channel.sub_rays) * np.exp(1j * phase))


def _complex_normal(stream: np.random.Generator, slots: int, paths: int) -> Complexes:
    """Draws of CN(0, 1), one row per slot."""
    parts = stream.standard_normal((slots, 2 * paths)) * math.sqrt(0.5)
    return parts.view(np.complex128)


def _recur(rho: float, last: Floats, steps: Floats) -> Floats:
    """y <- rho y + step down each column, starting after the row `last`.

    The loop takes milliseconds per map. `scipy.signal.lfilter` is faster, but its import costs
    half a second in every process.
    """
    columns = []
    for value, column in zip(last.tolist(), steps.T.tolist(), strict=True):
        columns.append([value := rho * value + step for step in column])
    return np.ascontiguousarray(np.array(columns).T)
