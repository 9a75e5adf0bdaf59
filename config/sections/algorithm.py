"""The `[algorithm]` table: the policy and its parameters."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from macontrol.config.policies import POLICIES, known_policy
from macontrol.config.sections.section import Auto, Fraction, NonNegative, Positive, Section


class Algorithm(Section):
    """The policy and its parameters (Algorithm 1 and the benchmarks)."""

    policy: Annotated[str, AfterValidator(known_policy)]
    beta: NonNegative | Auto
    eta: NonNegative
    margin: NonNegative
    window: Annotated[int, Field(ge=1, le=10_000)]
    ridge: Annotated[float, Field(ge=1e-6, le=1e6)]
    grid_spacing: Positive
    search: Literal["global", "local"]
    use_movement_cost: bool
    use_persistence: bool
    epsilon: Fraction
    sweep_period: Annotated[int, Field(ge=1)]

    def beta_for(self, policy: str) -> float:
        """The confidence parameter as set, or the policy's own optimum of the paper."""
        return POLICIES[policy].optimal_beta if self.beta == "auto" else self.beta
