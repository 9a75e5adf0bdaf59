"""What the rest of the program knows about a policy: its description, in its own package.

A description loads without NumPy: the command line needs it for its choices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from macontrol.controller.policies.policy import Policy, Posterior

if TYPE_CHECKING:
    from macontrol.config import Config
    from macontrol.controller.survey.samples import Survey

USES_POSTERIOR = frozenset({"algorithm.ridge", "kernel"})
"""The settings of a policy with a posterior."""


@dataclass(frozen=True)
class PolicyInputs:
    """What a policy is built from. Positions in wavelengths."""

    config: Config
    survey: Survey
    seed: int
    """The seed of a policy's own random choices."""
    begin_held: bool = False
    """Whether Sweep-and-hold begins at the survey's best position, as in the paper's figures
    (Setup), and is not charged for the way there."""
    with_samples: bool = True
    """Whether the window starts with the survey's samples; otherwise the survey gives only sigma_f.
    """

    @property
    def start_position(self) -> float:
        """x_0, without rounding error if it is on the grid."""
        return self.config.grid.snap(self.config.physical.x_0)

    @cached_property
    def sigma_f2(self) -> float:
        return self.survey.sigma_f2(self.config)

    def posterior(self) -> Posterior:
        """The posterior, calibrated by the survey, with its samples in the window."""
        from macontrol.controller.policies.estimate import make_posterior

        posterior = make_posterior(self.config, self.sigma_f2)
        if self.with_samples:
            first = 1 - len(self.survey.position)
            samples = zip(self.survey.position, self.survey.reward, strict=True)
            for slot, (position, reward) in enumerate(samples, start=first):
                posterior.observe(slot, float(position), float(reward))
        return posterior


@dataclass(frozen=True)
class PolicyDescription:
    """One policy."""

    name: str
    summary: str
    build: Callable[[PolicyInputs], Policy]
    optimal_beta: float = 0.0
    """The confidence parameter at which the policy is best in the paper (fig. beta)."""
    starts_from_samples: bool = False
    """Whether it starts with the survey's best position, so that sigma_f alone is not enough."""
    settings: frozenset[str] = frozenset()
    """The settings that it uses and other policies may not: `section.key`, or a whole section."""
