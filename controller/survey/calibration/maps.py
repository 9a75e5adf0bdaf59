"""What walks say about the map of the reward: mean, σ_f, backlash; and hops about settling.

Mean and σ_f are those of this site during this calibration: averages over the rail and over the
time of the calibration. They are no parameters of a law, and another hour may have others.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

import numpy as np
from numpy.typing import NDArray

from macontrol.controller.survey.calibration.estimate import Estimate, root
from macontrol.controller.survey.calibration.samples import HOP, Samples

Floats = NDArray[np.float64]

_LEAST_COMMON = 5


def mean_and_spread(
    walks: Sequence[Samples], noise2: Estimate, end_s: float
) -> tuple[Estimate, Estimate]:
    """The mean reward and σ_f over the rail and the time [0, end_s].

    Each walk stands for the time nearest to it. The uncertainty is that of a systematic sample,
    from the differences of successive walks, plus that of the noise.
    """
    share = _shares(np.array([walk.time_s.mean() for walk in walks]), end_s)
    means = np.array([_over_rail(walk.position, walk.reward) for walk in walks])
    mean = float(share @ means)
    squares = np.array([_over_rail(walk.position, (walk.reward - mean) ** 2) for walk in walks])
    variance = float(share @ squares) - noise2.value
    degrees = len(walks) / 2
    mean_error = _sampling_error(share, means)
    half_noise = (noise2.high - noise2.low) / 4
    variance_error = (_sampling_error(share, squares) ** 2 + half_noise**2) ** 0.5
    # The mean is that of the samples: its own error adds to the squares around it.
    spread = Estimate.around(variance + mean_error**2, variance_error, degrees)
    return Estimate.around(mean, mean_error, degrees), spread.mapped(root)


def _shares(times_s: Floats, end_s: float) -> Floats:
    """The share of [0, end_s] that is nearest to each time."""
    edges = np.concatenate(([0.0], (times_s[1:] + times_s[:-1]) / 2, [end_s]))
    return np.asarray(np.diff(edges) / end_s)


def _over_rail(position: Floats, values: Floats) -> float:
    """The mean over the rail by the trapezoid rule."""
    order = np.argsort(position)
    at, value = position[order], values[order]
    length = at[-1] - at[0]
    return float(np.trapezoid(value, at) / length) if length > 0 else float(value.mean())


def _sampling_error(share: Floats, values: Floats) -> float:
    """The standard error of Σ share·value, from the differences of neighbours."""
    squares = 0.5 * np.diff(values) ** 2
    left, right = np.append(squares[:1], squares), np.append(squares, squares[-1:])
    return float(np.sqrt(share**2 @ ((left + right) / 2)))


def backlash(walks: Sequence[Samples]) -> Estimate:
    """How much higher the antenna is when it comes from below than from above (wavelengths).

    Of a pair of walks in both directions, up(x) − down(x) = δ·g'(x) + noise + drift, where drift
    has no reason to look like the slope. The slope of the map is that of the walks beside the pair,
    whose noise is independent of the pair's: so the noise of the slope does not lower the estimate.
    """
    shifts, weights = [], []
    for number in range(len(walks) - 1):
        first, second = walks[number], walks[number + 1]
        if first.direction[0] == second.direction[0]:
            continue
        others = [*walks[max(0, number - 2) : number], *walks[number + 2 : number + 4]]
        sums = _regression(first, second, others)
        if sums is not None:
            shifts.append(sums[0])
            weights.append(sums[1])
    if len(shifts) < 2 or not sum(weights) > 0:
        return Estimate.around(nan, nan, 0)
    top, bottom = np.array(shifts), np.array(weights)
    value = float(top.sum() / bottom.sum())
    # Neighbouring pairs share a walk: their errors are not independent.
    rest = top - value * bottom
    variance = float(np.sum(rest**2) + 2 * np.sum(rest[1:] * rest[:-1]))
    variance = max(variance, 0.5 * float(np.sum(rest**2)))
    return Estimate.around(value, variance**0.5 / float(bottom.sum()), len(shifts) / 2)


def _regression(
    first: Samples, second: Samples, others: Sequence[Samples]
) -> tuple[float, float] | None:
    """Σ slope·(up − down) and Σ slope·slope': of the difference on the slope of other walks."""
    up, down = (first, second) if first.direction[0] > 0 else (second, first)
    if not others:
        return None
    common = up.index
    for walk in (down, *others):
        common = np.intersect1d(common, walk.index)
    if len(common) < _LEAST_COMMON:
        return None
    at = np.sort(common)
    position = _at(up, at, up.position)
    inner = slice(1, -1)
    gap = position[2:] - position[:-2]

    def slope(walk: Samples) -> Floats:
        values = _at(walk, at, walk.reward)
        return np.asarray((values[2:] - values[:-2]) / gap)

    difference = (_at(up, at, up.reward) - _at(down, at, down.reward))[inner]
    outside = np.mean([slope(walk) for walk in others], axis=0)
    within = (slope(up) + slope(down)) / 2
    return float(outside @ difference), float(outside @ within)


def _at(walk: Samples, index: NDArray[np.int_], values: Floats) -> Floats:
    """The values of a walk at some indices of the plan, which it has."""
    order = np.argsort(walk.index)
    return np.asarray(values[order][np.searchsorted(walk.index[order], index)])


def settling(samples: Samples) -> tuple[Floats, Floats, Estimate]:
    """After a hop: the delays, the excess squares, and the excess of the first measurement.

    The last measurement of each hop is the reference. Between the measurements k and k+1 the noise
    and the drift make a mean squared difference that does not depend on k; what the first pair has
    more than the last pair is due to the motion. The estimate is the excess, as a square.
    """
    hops = samples.only(samples.part == HOP)
    if not len(hops):
        return np.empty(0), np.empty(0), Estimate.around(nan, nan, 0)
    keys = hops.cycle * 10_000 + hops.group
    rows, delays = [], []
    most = int(hops.index.max())
    for key in np.unique(keys):
        one = hops.only(keys == key)
        if len(one) == most + 1:
            rows.append(np.diff(one.reward) ** 2)
            delays.append(one.delay_s)
    if len(rows) < 3:
        return np.empty(0), np.empty(0), Estimate.around(nan, nan, 0)
    squares = np.array(rows)
    excess = squares[:, 0] - squares[:, 1:].mean(axis=1)
    error = float(excess.std(ddof=1) / len(excess) ** 0.5)
    return (
        np.mean(delays, axis=0)[:-1],
        squares.mean(axis=0),
        Estimate.around(float(excess.mean()), error, len(excess) - 1),
    )
