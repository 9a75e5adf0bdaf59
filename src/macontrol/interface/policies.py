"""Policies by name, as a class or function, or as an object."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, cast

from macontrol.config import Config, load_config
from macontrol.config.model.registry import require_members
from macontrol.controller.policies.description import PolicyInputs
from macontrol.controller.policies.policy import Policy
from macontrol.controller.policies.registry import POLICIES
from macontrol.controller.survey.samples import Survey

AnyPolicy: TypeAlias = str | Policy | Callable[[PolicyInputs], Policy]
"""The name of a policy, an object, or a class or function that builds one from its inputs."""


def policy_names() -> list[str]:
    """Return the names of the policies that `replay` and `run_simulated` take."""
    return list(POLICIES.names())


def build_policy(
    policy: AnyPolicy | None, config: Config, survey: Survey, seed: int
) -> tuple[Policy, str]:
    """The policy for slot 1 and its name; without one, the config's."""
    inputs = PolicyInputs(config, survey, seed)
    if policy is None:
        policy = config.algorithm.policy
    if isinstance(policy, str):
        return POLICIES[policy].build(inputs), policy
    built, name = policy, type(policy).__name__
    if isinstance(policy, type) or not hasattr(policy, "decide"):
        built = cast("Callable[[PolicyInputs], Policy]", policy)(inputs)
        name = getattr(policy, "__name__", name)
    require_members(built, Policy, f"the policy {name}")
    return cast(Policy, built), name


def with_policy(config: Config, policy: AnyPolicy | None) -> Config:
    """The config with the name of the policy, if it has one: a policy reads its settings there."""
    if not isinstance(policy, str):
        return config
    return load_config(assignments=[f"algorithm.policy={policy}"], base=config)
