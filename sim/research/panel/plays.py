"""The runs of the panel: every policy starts at x_0 and pays for all of its travel.

Rewards can be disturbed in a way that the policies do not know. The map is the same with and
without a disturbance, so that all such runs share it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from macontrol.config import Config
from macontrol.sim.research.episode import play
from macontrol.sim.research.tasks import Play, Result
from macontrol.sim.world.channel import survey_noise
from macontrol.sim.world.rewardmap import RewardMap

Mask: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True)
class Disturbance:
    """What happens to the rewards that a policy gets, unknown to it."""

    noise: float = 1.0
    """The noise of the rewards and of the survey, in units of what the config says."""
    missing: float = 0.0
    """The share of the slots without a reward."""
    late: float = 0.0
    """The share of the slots whose reward arrives one slot late."""

    def of_map(self, config: Config, world: RewardMap) -> RewardMap:
        """The map with this noise."""
        if self.noise == 1.0:
            return world
        own = survey_noise(config, config.run.seed, len(world.survey_reward))
        return replace(
            world,
            noise=self.noise * world.noise,
            survey_reward=world.survey_reward + (self.noise - 1.0) * own,
        )

    def masks(self, seed: int, slots: int) -> tuple[Mask | None, Mask | None]:
        """Which rewards are missing and which are late: the same for all policies."""
        draws = np.random.default_rng([seed, slots]).random((2, slots))
        shares = (self.missing, self.late)
        missing, late = (
            draw < share if share else None for draw, share in zip(draws, shares, strict=True)
        )
        return missing, late


UNDISTURBED = Disturbance()


@dataclass(frozen=True)
class PanelPlay(Play):
    """A run of a policy in the panel: from x_0, so that all travel is paid, and disturbed."""

    disturbance: Disturbance = UNDISTURBED

    def compute(self, world: RewardMap) -> Result:
        config, seed = self.config, self.config.run.seed
        missing, late = self.disturbance.masks(seed, world.slots)
        disturbed = self.disturbance.of_map(config, world)
        return self.summary(play(config, disturbed, seed=seed, missing=missing, late=late))
