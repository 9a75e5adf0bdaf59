"""How the reward differs between two times, and between two places: structure functions.

The structure function at a lag τ is D(τ) = E[(g_{t+τ}(x) − g_t(x))²], at a distance h it is
E[(g_t(x+h) − g_t(x))²]. Half the mean squared difference of two samples is σ_ε² + D/2, so the noise
is what remains as the lag goes to 0 (the nugget of a variogram), and D is what lies above it. No
model of the channel is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf, log, nan

import numpy as np
from numpy.typing import NDArray

from macontrol.controller.survey.calibration.samples import Samples

Floats = NDArray[np.float64]

MOST_LAGS = 20
"""Lags, in samples, from which the noise is extrapolated."""
_LEAST_LAGS = 4
_BLOCKS = 24
_LEAST_BLOCK = 12
_BINS = 24
# Longer lags have too few pairs.
LONGEST_SHARE = 1 / 4


@dataclass(frozen=True)
class Curve:
    """A structure function: mean squared differences at some lags (seconds or wavelengths)."""

    lag: Floats
    value: Floats
    at_rest: int = 0
    """How many of the lags, the first ones, are from standing still."""


def stand_blocks(samples: Samples) -> dict[int, list[Floats]]:
    """The rewards of each cycle's stand, in blocks of about equal length.

    Samples stand on their slots, and a slot without a sample is NaN: a lag is a number of slots.
    """
    stands = {cycle: _on_slots(samples.stand(cycle)) for cycle in samples.cycles}
    length = max(_LEAST_BLOCK, ceil(sum(map(len, stands.values())) / _BLOCKS))
    return {
        cycle: list(np.array_split(stand, max(1, round(len(stand) / length))))
        for cycle, stand in stands.items()
        if len(stand) >= _LEAST_LAGS
    }


def half_squares(blocks: Sequence[Floats], lags: int) -> tuple[Floats, Floats]:
    """Half the mean squared difference at lags 1 … n of all pairs within a block; their number."""
    found, count = np.full(lags, nan), np.zeros(lags)
    for lag in range(1, lags + 1):
        pairs = [block[lag:] - block[:-lag] for block in blocks if len(block) > lag]
        if pairs:
            differences = np.concatenate(pairs)
            differences = differences[np.isfinite(differences)]
            if len(differences):
                found[lag - 1] = 0.5 * float(np.mean(differences**2))
                count[lag - 1] = len(differences)
    return found, count


def nugget(blocks: Sequence[Floats], lags: int) -> float:
    """σ_ε²: half squared differences, extrapolated to lag 0 by a parabola; it may be below 0.

    A lag counts as much as it has pairs: long lags have few within a block.
    """
    values, count = half_squares(blocks, lags)
    lag = np.arange(1.0, lags + 1)
    known = np.isfinite(values)
    degree = 2 if lags > _LEAST_LAGS else 1
    if known.sum() <= degree:
        return nan
    weights = np.sqrt(count[known])
    return float(np.polynomial.polynomial.polyfit(lag[known], values[known], degree, w=weights)[0])


def lags_for(coherence_slots: float) -> int:
    """How many lags are short compared with the coherence time."""
    return int(np.clip(coherence_slots / 6, _LEAST_LAGS, MOST_LAGS))


class Structures:
    """The structure functions of any choice of cycles, from sums that are computed once.

    In time, a lag between two walks in the same direction is the same at all places, so D is that
    of the whole rail. Shorter lags are known from the stands, each at one place.
    """

    def __init__(self, samples: Samples, walks: Sequence[Samples], slot_s: float, end_s: float):
        self._slot_s = slot_s
        self._cycles = samples.cycles
        self._sum_stands(samples)
        self._sum_pairs(walks, end_s)
        self._sum_neighbours(walks)

    def in_time(self, cycles: Sequence[int], noise2: float) -> Curve:
        """D over the lag in seconds."""
        walking = self._between_walks(cycles, noise2)
        chosen = np.isin(self._cycles, cycles)
        counts = self._stand_count[chosen].sum(axis=0)
        known = counts > 0
        lag = self._stand_lags[known] * self._slot_s
        value = self._stand_squares[chosen].sum(axis=0)[known] / counts[known] - 2 * noise2
        short = lag < (walking.lag[0] if len(walking.lag) else inf)
        lags, values = (lag[short], walking.lag), (value[short], walking.value)
        return Curve(np.concatenate(lags), np.concatenate(values), int(short.sum()))

    def in_space(self, cycles: Sequence[int], noise2: float, drift: Curve) -> Curve:
        """D over the distance, from neighbours within a walk; the drift between them is taken out.

        With a correlation that is the product of one in space and one in time, 1 − D/2V is the
        product of theirs: to first order, D of the drift is subtracted.
        """
        chosen = np.isin(self._walk_cycle, cycles)
        squares, counts, lags, gaps = self._neighbours[:, chosen].sum(axis=1)
        known = counts > 0
        squares, lags, gaps = (sums[known] / counts[known] for sums in (squares, lags, gaps))
        between = np.array([value_at(drift, lag) for lag in lags.tolist()])
        return Curve(gaps, squares - 2 * noise2 - between)

    def _between_walks(self, cycles: Sequence[int], noise2: float) -> Curve:
        chosen = np.isin(self._pair_cycles, cycles).all(axis=1)
        bins = len(self._edges) + 1
        place = np.searchsorted(self._edges, self._pair_lag[chosen])
        squares, counts, lags = (
            np.bincount(place, weights=each[chosen], minlength=bins)[1:-1]
            for each in (
                self._pair_squares,
                self._pair_count,
                self._pair_lag * self._pair_count,
            )
        )
        known = counts > 0
        return Curve(lags[known] / counts[known], squares[known] / counts[known] - 2 * noise2)

    def _sum_stands(self, samples: Samples) -> None:
        stands = [_on_slots(samples.stand(cycle)) for cycle in self._cycles]
        longest = max(2, max((len(stand) for stand in stands), default=0) // 2)
        self._stand_lags = np.unique(np.geomspace(1, longest, _BINS).astype(int))
        shape = len(stands), len(self._stand_lags)
        self._stand_squares, self._stand_count = np.zeros(shape), np.zeros(shape)
        for row, rewards in enumerate(stands):
            for column, lag in enumerate(self._stand_lags.tolist()):
                if 2 * lag <= len(rewards):
                    squares = (rewards[lag:] - rewards[:-lag]) ** 2
                    self._stand_squares[row, column] = np.nansum(squares)
                    self._stand_count[row, column] = np.isfinite(squares).sum()

    def _sum_pairs(self, walks: Sequence[Samples], end_s: float) -> None:
        points = max((int(walk.index.max()) for walk in walks), default=0) + 1
        reward, known, time = (np.zeros((len(walks), points)) for _ in range(3))
        for row, walk in enumerate(walks):
            reward[row, walk.index] = walk.reward - walks[0].reward.mean()
            known[row, walk.index] = 1.0
            time[row, walk.index] = walk.time_s
        direction = np.array([int(walk.direction[0]) for walk in walks])
        first, second = np.triu_indices(len(walks), 1)
        same = direction[first] == direction[second]
        first, second = first[same], second[same]
        own = (reward**2) @ known.T
        squares = own[first, second] + own.T[first, second] - 2 * (reward @ reward.T)[first, second]
        counts = (known @ known.T)[first, second]
        lag = (known @ time.T - time @ known.T)[first, second] / np.maximum(counts, 1)
        shortest_s = min((2 * float(np.ptp(walk.time_s)) for walk in walks), default=1.0)
        longest_s = max(LONGEST_SHARE * end_s, 3 * shortest_s)
        used = (counts > 0) & (lag <= longest_s)
        self._edges = np.geomspace(0.9 * shortest_s, 1.01 * longest_s, _BINS)
        cycle = self._walk_cycle = np.array([int(walk.cycle[0]) for walk in walks])
        self._pair_cycles = np.stack((cycle[first], cycle[second]), axis=1)[used]
        self._pair_squares, self._pair_count = squares[used], counts[used]
        self._pair_lag = lag[used]

    def _sum_neighbours(self, walks: Sequence[Samples]) -> None:
        """For each walk and number of steps: squares, count, lags and distances."""
        points = max((int(walk.index.max()) for walk in walks), default=1)
        most = max(1, points // 2)
        self._neighbours = np.zeros((4, len(walks), most))
        for row, walk in enumerate(walks):
            for step in range(1, min(most, len(walk) - 1) + 1):
                apart = np.abs(walk.index[step:] - walk.index[:-step]) == step
                each = (
                    (walk.reward[step:] - walk.reward[:-step]) ** 2,
                    np.ones(len(apart)),
                    walk.time_s[step:] - walk.time_s[:-step],
                    np.abs(walk.position[step:] - walk.position[:-step]),
                )
                self._neighbours[:, row, step - 1] = [float(one[apart].sum()) for one in each]


def _on_slots(stand: Samples) -> Floats:
    """The rewards of a stand, one per slot; NaN where a slot has none."""
    if not len(stand):
        return np.empty(0)
    slots = stand.slot - stand.slot[0]
    rewards = np.full(int(slots[-1]) + 1, nan)
    rewards[slots] = stand.reward
    return rewards


def value_at(curve: Curve, lag: float) -> float:
    """D at a lag, between the lags that are known; 0 at lag 0."""
    return float(np.interp(lag, np.append(0.0, curve.lag), np.append(0.0, curve.value)))


def crossing(curve: Curve, level: float, longest: float) -> float:
    """The logarithm of the first lag at which D reaches a level, or that of the longest lag.

    Between lags √D is interpolated, as D grows with the square of a short lag.
    """
    lag, value = np.append(0.0, curve.lag), np.append(0.0, curve.value)
    above = np.flatnonzero(value >= level)
    if not len(above):
        return log(longest)
    upper = int(above[0])
    low, high = np.sqrt(np.maximum(value[[upper - 1, upper]], 0.0))
    share = (level**0.5 - low) / (high - low)
    return log(min(max(lag[upper - 1] + share * (lag[upper] - lag[upper - 1]), 1e-9), longest))
