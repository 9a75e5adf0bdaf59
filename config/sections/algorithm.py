"""The `[algorithm]` table: the policy and its parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import Field

from macontrol.config.model.errors import ConfigError
from macontrol.config.policies import POLICIES
from macontrol.config.sections.driver import ChosenSettings
from macontrol.config.sections.section import Auto, Fraction, NonNegative, Positive


class Algorithm(ChosenSettings):
    """The policy and its parameters (Algorithm 1 and the benchmarks).

    A policy with settings of its own has a subclass: see `algorithm_class`.
    """

    chooser: ClassVar[str] = "policy"

    policy: str
    """the policy that positions the antenna"""
    beta: NonNegative | Auto = "auto"
    """the confidence parameter; "auto": the optimum of the policy in the paper"""
    eta: NonNegative = 2.0
    """how much the time of travel weighs in the movement price, beside c_e"""
    margin: NonNegative = 0.1
    """Delta, in units of sigma_f: a target is kept unless another is better by more than this"""
    window: Annotated[int, Field(ge=1, le=10_000)] = 300
    """w, the number of recent samples that the posterior uses"""
    ridge: Annotated[float, Field(ge=1e-6, le=1e6)] = 0.1
    """varrho, the ridge of the posterior"""
    grid_spacing: Positive = 0.01
    """Delta_g, the distance of the positions that a policy may choose"""
    search: Literal["global", "local"] = "global"
    """where a target is searched: on the whole rail (global), or within a stroke (local)"""
    use_movement_cost: bool = True
    """whether the acquisition includes the movement cost"""
    use_persistence: bool = True
    """whether a target is kept by the persistence rule"""
    epsilon: Fraction = 0.1
    """of epsilon-greedy: the share of slots with a random target"""
    sweep_period: Annotated[int, Field(ge=1)] = 1000
    """of sweep-and-hold: slots from one sweep to the next; the paper tries 500, 1000 and 2000"""

    def beta_for(self, policy: str) -> float:
        """The confidence parameter as set, or the policy's own optimum of the paper."""
        return POLICIES[policy].optimal_beta if self.beta == "auto" else self.beta

    def __reduce__(self) -> tuple[Callable[[Mapping[str, Any]], Algorithm], tuple[dict[str, Any]]]:
        return from_table, (self.model_dump(),)  # the class of a plug-in's settings has no module


def from_table(table: Mapping[str, Any]) -> Algorithm:
    """The settings in an `[algorithm]` table, as an instance of the class of its policy."""
    return algorithm_class(table["policy"]).model_validate(table)


@cache
def algorithm_class(policy: str) -> type[Algorithm]:
    """The `[algorithm]` table with the policy's own keys; ConfigError for an unknown policy."""
    found = POLICIES[policy]
    if found.settings is None:
        return Algorithm
    names = {found.name, *found.settings.model_fields}
    if taken := sorted(names & Algorithm.model_fields.keys()):
        raise ConfigError(
            f"the settings of the policy {policy} have names of [algorithm]: {', '.join(taken)}",
            "rename them; a policy can use those of [algorithm] as they are",
        )
    members = {"__module__": found.settings.__module__, "__annotations__": {"policy": str}}
    made = type("Algorithm", (found.settings, Algorithm), members | {"policy": found.name})
    return cast("type[Algorithm]", made)
