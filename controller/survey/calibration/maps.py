"""What walks say about the map of the reward: mean, σ_f, backlash; and hops about settling.

Mean and σ_f are those of this site during this calibration: averages over the rail and over the
time of the calibration. They are no parameters of a law, and another hour may have others.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

import numpy as np
from numpy.typing import NDArray

from macontrol.controller.survey.calibration.estimate import Estimate, jackknife, root
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
    """The standard error of Σ share·value, from the differences of neighbours.

    The larger one counts: beside a stand it is that over the time without a walk.
    """
    squares = 0.5 * np.diff(values) ** 2
    left, right = np.append(squares[:1], squares), np.append(squares, squares[-1:])
    return float(np.sqrt(share**2 @ np.maximum(left, right)))


def backlash(walks: Sequence[Samples]) -> Estimate:
    """How much higher the antenna is when it comes from below than from above (wavelengths).

    A walk is compared with the two in the other direction beside it, interpolated to its time at
    each place: their difference is δ·g'(x) + noise + drift that is not steady. The slope g' is that
    of the walks beside these three, so that its noise is not that of the difference.
    """
    sums: dict[int, Floats] = {}
    for number in range(len(walks)):
        cycle = int(walks[number].cycle[0])
        beside = [
            each
            for each in (number - 1, number + 1)
            if 0 <= each < len(walks)
            and walks[each].cycle[0] == cycle
            and walks[each].direction[0] != walks[number].direction[0]
        ]
        alone = beside == [number + 1] and number + 2 >= len(walks)
        is_pair = beside == [number + 1] and (alone or walks[number + 2].cycle[0] != cycle)
        is_pair &= number == 0 or walks[number - 1].cycle[0] != cycle
        if len(beside) < 2 and not is_pair:
            continue
        around = [*range(number - 3, number - 1), *range(number + 2, number + 4)]
        others = [walks[each] for each in around if 0 <= each < len(walks)]
        part = _regression(walks[number], [walks[each] for each in beside], others)
        sums[cycle] = sums.get(cycle, np.zeros(2)) + part
    parts = [part for part in sums.values() if part[1] != 0]
    if len(parts) < 2:
        return Estimate.around(nan, nan, 0)
    (found,) = jackknife(parts, _ratio)
    return found


def _ratio(parts: Sequence[Floats]) -> Floats:
    top, bottom = np.sum(parts, axis=0)
    return np.array([top / bottom if bottom else nan])


def _regression(walk: Samples, beside: Sequence[Samples], others: Sequence[Samples]) -> Floats:
    """Σ slope·(up − down) and Σ slope·slope': the difference, and the slope of other walks."""
    common = walk.index
    for one in (*beside, *others):
        common = np.intersect1d(common, one.index)
    if not others or len(common) < _LEAST_COMMON:
        return np.zeros(2)
    at = np.sort(common)
    position = _at(walk, at, walk.position)
    gap = (position[4:] - position[:-4]) / 4
    whole = at[4:] - at[:-4] == 4

    def slope(one: Samples) -> Floats:
        # Of five points: three make a short fringe flatter than it is, and the backlash larger.
        values = _at(one, at, one.reward)
        near, far = values[3:-1] - values[1:-3], values[4:] - values[:-4]
        return np.where(whole, (8 * near - far) / (12 * gap), 0.0)

    first, last = beside[0], beside[-1]
    share = np.full(len(at), 0.5)
    if len(beside) > 1:
        begin, end = _at(first, at, first.time_s), _at(last, at, last.time_s)
        share = (_at(walk, at, walk.time_s) - begin) / (end - begin)
    against = (1 - share) * _at(first, at, first.reward) + share * _at(last, at, last.reward)
    sign = float(walk.direction[0])
    difference = sign * (_at(walk, at, walk.reward) - against)[2:-2]
    outside = np.mean([slope(one) for one in others], axis=0)
    within = np.mean([slope(walk), *(slope(one) for one in beside)], axis=0)
    return np.array([outside @ difference, outside @ within])


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
    most = int(hops.index.max())
    squares: dict[int, list[Floats]] = {}
    delays = []
    for cycle in samples.cycles:
        of_cycle = hops.only(hops.cycle == cycle)
        for group in np.unique(of_cycle.group):
            one = of_cycle.only(of_cycle.group == group)
            if len(one) == most + 1:
                squares.setdefault(cycle, []).append(np.diff(one.reward) ** 2)
                delays.append(one.delay_s)
    if most < 2 or len(squares) < 2:
        return np.empty(0), np.empty(0), Estimate.around(nan, nan, 0)
    # The drift is that of a place, so a cycle counts as one sample.
    cycles = [np.sum(rows, axis=0) for rows in squares.values()]
    counts = [len(rows) for rows in squares.values()]
    (found,) = jackknife(list(zip(cycles, counts, strict=True)), _excess)
    return np.mean(delays, axis=0)[:-1], np.sum(cycles, axis=0) / sum(counts), found


def _excess(parts: Sequence[tuple[Floats, int]]) -> Floats:
    mean = np.sum([squares for squares, _ in parts], axis=0) / sum(count for _, count in parts)
    return np.array([mean[0] - mean[1:].mean()])
