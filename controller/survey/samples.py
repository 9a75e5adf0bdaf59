"""The warm-up survey: the samples of the rail before slot 1, and what follows from them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import nan
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from macontrol.config import Config
from macontrol.config.model.errors import ProbeError
from macontrol.hal.probe import UNKNOWN_SIGNAL, Signal

Array = NDArray[np.float64]

LEAST_SHARE = 0.5
"""The share of the positions that must give a reward."""


class Sample(NamedTuple):
    """One measurement at one position."""

    position: float
    """In wavelengths."""
    reward: float
    uncertainty: float = nan
    """Standard deviation of the reward; NaN if unknown."""
    unix_s: float = nan
    """The middle of the measuring interval, in seconds of UTC since 1970; NaN if unknown."""
    signal: Signal = UNKNOWN_SIGNAL


@dataclass(frozen=True)
class Survey:
    """Noisy rewards at positions on the rail (in wavelengths), from left to right."""

    position: Array
    reward: Array
    noise_variance: float | None = None
    """The variance of a reward's noise as the probe reported; None for the simulator's."""
    walked_wall_s: float | None = None
    """When the survey ended, in seconds of UTC since 1970; None for a snapshot before slot 1."""
    samples: tuple[Sample, ...] = ()
    """The same samples with what else is known of each; empty if nothing is."""

    @classmethod
    def of(cls, samples: Sequence[Sample], walked_wall_s: float | None = None) -> Survey:
        """The survey of these samples; it ends now if no time is given."""
        ordered = tuple(sorted(samples, key=lambda sample: (sample.position, sample.unix_s)))
        known = np.array([sample[:3] for sample in ordered] or np.empty((0, 3)), float)
        position, reward, uncertainty = known.T
        variances = np.square(uncertainty[np.isfinite(uncertainty)])
        # There is nothing to subtract for a probe that does not know its noise.
        noise_variance = float(variances.mean()) if len(variances) else 0.0
        ended = time.time() if walked_wall_s is None else walked_wall_s
        return cls(position, reward, noise_variance, ended, ordered)

    def sigma_f2(self, config: Config) -> float:
        """The kernel's output scale: the sample variance of the rewards less that of the noise."""
        noise = config.noise_std**2 if self.noise_variance is None else self.noise_variance
        variance = float(np.var(self.reward, ddof=1)) - noise
        return max(variance, config.survey.variance_floor)

    def offset(self, config: Config) -> float:
        """The prior mean of the reward: 0 in the paper, or the mean of these rewards."""
        return float(self.reward.mean()) if config.reward.offset == "survey" else 0.0

    def is_in_window(self, config: Config, now_wall_s: float) -> bool:
        """Whether the samples are new enough for the window: not older than w·T_s."""
        return self.walked_wall_s is None or 0 <= now_wall_s - self.walked_wall_s < config.window_s

    def can_be(self, config: Config) -> bool:
        """Whether the samples are possible on this rail: a file may contain anything."""
        position, reward = self.position, self.reward
        if position.ndim != 1 or position.shape != reward.shape or len(position) < 2:
            return False
        if not 0 <= (self.noise_variance or 0.0) <= config.largest_reward**2:
            return False
        is_on_rail = (position >= 0) & (position <= config.physical.region_length)
        return bool(is_on_rail.all() and (np.abs(reward) <= config.largest_reward).all())

    @property
    def best_position(self) -> float:
        """The position of the highest reward; of equal ones the lowest position."""
        return float(self.position[int(np.argmax(self.reward))])


def enough(rewards: int, positions: int) -> bool:
    """Whether enough positions of a survey have a reward."""
    return rewards >= max(2, LEAST_SHARE * positions)


def require_enough(rewards: int, positions: int) -> None:
    """Raise ProbeError if too few positions of a survey have a reward."""
    if not enough(rewards, positions):
        raise ProbeError(
            f"the survey has a reward at only {rewards} of {positions} positions",
            "see what `macontrol check` reports about the probe",
        )
