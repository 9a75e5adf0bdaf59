"""The warm-up survey: where the rail was sampled before slot 1, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from macontrol.config import Config

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Survey:
    """Noisy rewards at positions of the rail (in wavelengths), from left to right."""

    position: Array
    reward: Array

    def sigma_f2(self, config: Config) -> float:
        """The kernel's output scale: the rewards' sample variance net of the noise's."""
        variance = float(np.var(self.reward, ddof=1)) - config.noise_std**2
        return max(variance, config.survey.variance_floor)

    def can_be(self, config: Config) -> bool:
        """Whether a survey of this rail can have given it: a file may hold anything."""
        position, reward = self.position, self.reward
        if position.ndim != 1 or position.shape != reward.shape or len(position) < 2:
            return False
        is_on_rail = (position >= 0) & (position <= config.physical.region_length)
        return bool(is_on_rail.all() and (np.abs(reward) <= config.largest_reward).all())

    @property
    def best_position(self) -> float:
        """Where the highest reward was seen; of equals the lowest position."""
        return float(self.position[int(np.argmax(self.reward))])
