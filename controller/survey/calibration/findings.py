"""What a calibration finds without any model of the channel: every quantity with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf, nan

import numpy as np
from numpy.typing import NDArray

from macontrol.controller.survey.calibration import structure
from macontrol.controller.survey.calibration.estimate import Estimate, jackknife, root
from macontrol.controller.survey.calibration.maps import backlash, mean_and_spread, settling
from macontrol.controller.survey.calibration.samples import WALK, Samples
from macontrol.controller.survey.calibration.structure import Curve, Structures, crossing

Floats = NDArray[np.float64]

DRIFT_SLOTS = 10
"""The drift is the change of the reward at a position within this number of slots."""


@dataclass(frozen=True)
class Findings:
    """The quantities of a site; README and page explain each."""

    noise: Estimate
    """σ_ε: the standard deviation of a reward's noise (bit/s/Hz)."""
    stated_noise: float
    """What the probe states of it, as root mean square; NaN if it states none."""
    mean: Estimate
    """The mean reward over the rail and the time of the calibration."""
    sigma_f: Estimate
    """The standard deviation of the reward over the rail and the time of the calibration."""
    drift: Estimate
    """The root mean square change of the reward at a position within DRIFT_SLOTS slots."""
    coherence_s: Estimate
    """The lag at which the mean squared change at a position is σ_f²: correlation 1/2."""
    coherence_length: Estimate
    """The distance at which the mean squared difference is σ_f² (wavelengths)."""
    backlash: Estimate
    """How much higher a position is when it is reached from below (wavelengths)."""
    settling: Estimate
    """The mean square by which the first measurement after a hop differs more than later ones."""
    in_time: Curve
    """D over the lag in seconds."""
    in_space: Curve
    """D over the distance in wavelengths."""
    settling_delay_s: Floats
    settling_squares: Floats
    """After a hop: delay of a measurement, and its mean squared difference to the next one."""


def all_walks(samples: Samples) -> list[Samples]:
    """The walks that reached most of the rail, in the order of time."""
    walks = [walk for cycle in samples.cycles for walk in samples.walks(cycle)]
    most = max((len(walk) for walk in walks), default=0)
    return [walk for walk in walks if len(walk) >= max(2, 0.7 * most)]


def find(samples: Samples, slot_s: float, end_s: float) -> Findings:
    """All quantities of the samples of a calibration that took `end_s`."""
    walks = all_walks(samples)
    cycles = samples.cycles
    stands = structure.stand_blocks(samples)
    blocks = [block for parts in stands.values() for block in parts]
    rough2 = structure.nugget(blocks, structure.lags_for(inf if len(blocks) > 2 else 0))
    structures = Structures(samples, walks, slot_s, end_s)
    longest = structure.LONGEST_SHARE * end_s, float(np.ptp(samples.position)) / 2
    rough = _coherences(structures, samples, cycles, rough2, longest)
    lags = structure.lags_for(exp(float(rough[0])) / slot_s)
    (noise2,) = jackknife(blocks, lambda part: np.array([structure.nugget(part, lags)]))
    level = float(np.nanmean(structure.half_squares(blocks, lags)[0]))
    nugget = max(noise2.value, 0.0)
    # Each stand is one place: the drift at other places is known from their scatter.
    (drift2,) = jackknife(list(stands.values()), lambda part: _drift(part, lags))
    mean, sigma_f = mean_and_spread(walks, noise2, end_s)
    in_time = structures.in_time(cycles, nugget)
    in_space = structures.in_space(cycles, nugget, in_time)
    coherence, length = jackknife(
        cycles, lambda part: _coherences(structures, samples, part, nugget, longest)
    )
    delay_s, squares, settled = settling(samples)
    stated = samples.sigma[np.isfinite(samples.sigma)]
    return Findings(
        noise=noise2.of_a_variance(level).mapped(root),
        stated_noise=float(np.sqrt(np.mean(stated**2))) if len(stated) else nan,
        mean=mean,
        sigma_f=sigma_f,
        drift=drift2.mapped(root),
        coherence_s=_bounded(coherence, longest[0]),
        coherence_length=_bounded(length, longest[1]),
        backlash=backlash(walks),
        settling=settled,
        in_time=in_time,
        in_space=in_space,
        settling_delay_s=delay_s,
        settling_squares=squares,
    )


def _drift(stands: Sequence[Sequence[Floats]], lags: int) -> Floats:
    """D at the lag of the drift."""
    blocks = [block for stand in stands for block in stand]
    squares, _ = structure.half_squares(blocks, DRIFT_SLOTS)
    known = squares[np.isfinite(squares)]
    if not len(known):
        return np.array([nan])
    return np.array([2 * (known[-1] - structure.nugget(blocks, lags))])


def _coherences(
    structures: Structures,
    samples: Samples,
    cycles: Sequence[int],
    noise2: float,
    longest: tuple[float, float],
) -> Floats:
    """The logarithms of the lags at which D in time and in space reaches σ_f²."""
    in_time = structures.in_time(cycles, noise2)
    in_space = structures.in_space(cycles, noise2, in_time)
    rewards = samples.reward[(samples.part == WALK) & np.isin(samples.cycle, cycles)]
    level = max(float(rewards.var()) - noise2, 1e-12)
    curves = zip((in_time, in_space), longest, strict=True)
    return np.array([crossing(curve, level, most) for curve, most in curves])


def _bounded(logs: Estimate, longest: float) -> Estimate:
    """The estimate itself; beyond the longest lag only "at least" is known."""
    found = logs.mapped(lambda value: exp(min(value, 700.0)))
    if found.value >= longest * (1 - 1e-9):
        # Cycles that all end before D is reached do not scatter: that is no certainty.
        return Estimate(inf, min(found.low, longest / 2), inf)
    high = inf if found.high >= longest * (1 - 1e-9) else found.high
    return Estimate(found.value, found.low, high)
