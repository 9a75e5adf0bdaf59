"""What the rest of the program knows about a policy: its description, in its own package.

A description loads without NumPy: the command line needs it for its choices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from macontrol.config.sections.driver import require_table
from macontrol.config.sections.section import Section
from macontrol.controller.policies.policy import Policy, Posterior

if TYPE_CHECKING:
    from macontrol.config import Config
    from macontrol.controller.policies.features import KernelFeatures
    from macontrol.controller.survey.samples import Survey

USES_POSTERIOR = frozenset({"algorithm.ridge", "kernel", "reward.offset"})
"""The settings of a policy with a posterior."""
USES_CONFIDENCE = USES_POSTERIOR | {"algorithm.beta", "algorithm.search"}
"""Those of one that goes for the largest upper confidence bound."""


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
    """Whether the window starts with the survey's samples; otherwise the survey gives only sigma_f
    and the offset of the rewards."""

    @property
    def settings(self) -> Any:
        """The table [algorithm], with the keys of the policy's own settings model."""
        return self.config.algorithm

    @property
    def start_position(self) -> float:
        """x_0, without rounding error if it is on the grid."""
        return self.config.grid.snap(self.config.physical.x_0)

    @cached_property
    def sigma_f2(self) -> float:
        return self.survey.sigma_f2(self.config)

    @property
    def movement_cost(self) -> float:
        """The price of a wavelength of travel: c_e, and the reward lost while the antenna moves.

        The latter is 0 with fixed actuation, which is lost without a move too.
        """
        physical, rate = self.config.physical, float(self.survey.reward.mean())
        lost = physical.actuation_plan.price(rate, physical.rho_max)
        return self.config.reward.movement_cost + lost

    def posterior(self) -> Posterior:
        """The posterior, calibrated by the survey, with its samples in the window."""
        from macontrol.controller.policies.estimate import make_posterior

        posterior = make_posterior(self.config, self.sigma_f2, self.survey.offset(self.config))
        self.give_samples(posterior)
        return posterior

    def features(self) -> KernelFeatures:
        """The features of the config's kernel, on its grid."""
        from macontrol.controller.policies.features import kernel_features
        from macontrol.controller.policies.kernel import kernel_from_config

        return kernel_features(kernel_from_config(self.config.kernel), self.config.grid)

    def give_samples(self, posterior: Posterior) -> None:
        """Give an estimate the samples of the survey, in the slots before slot 1."""
        if self.with_samples:
            first = 1 - len(self.survey.position)
            samples = zip(self.survey.position, self.survey.reward, strict=True)
            for slot, (position, reward) in enumerate(samples, start=first):
                posterior.observe(slot, float(position), float(reward))


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
    uses: frozenset[str] | None = None
    """The settings that it uses and other policies may not: `section.key`, or a whole section; None
    if unknown."""
    settings: type[Section] | None = None
    """The model of its own settings, the table `[algorithm.NAME]`."""
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Other settings to compare it with, by name: `section.key` and value. `macontrol reproduce
    panel` runs them as POLICY:VARIANT."""

    def __post_init__(self) -> None:
        model: object = self.settings
        if model is not None and not (isinstance(model, type) and issubclass(model, Section)):
            raise TypeError(f"its settings are {model!r}, not a subclass of Section")
        if model is not None:
            require_table(self.name, model)

    @classmethod
    def adopt(cls, policy: type, name: str) -> PolicyDescription:
        """The description of a plain class, which is built with PolicyInputs.

        Its name is that of the entry point, or of the class; its attribute `Settings`, if there is
        one, is the model of its settings.
        """
        summary = (policy.__doc__ or policy.__name__).strip().partition("\n")[0]
        model = getattr(policy, "Settings", None)
        return cls(name or policy.__name__, summary, policy, settings=model)
