"""The registered policies, and the one function that builds a policy for slot 1.

A policy is a package that exposes DESCRIPTION: in this folder, or in another distribution under the
entry-point group `macontrol.policies`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from macontrol.config import policies
from macontrol.config.model.errors import ConfigError, MacontrolError, described
from macontrol.config.model.registry import Registry, require_members
from macontrol.controller.policies.description import PolicyDescription, PolicyInputs
from macontrol.controller.policies.policy import HasPosterior, HasSettings, HasSurface, Policy

if TYPE_CHECKING:
    from macontrol.config import Config
    from macontrol.controller.survey.samples import Survey


POLICIES = cast("Registry[PolicyDescription]", policies.POLICIES)


def make_policy(
    config: Config,
    survey: Survey,
    *,
    seed: int | None = None,
    begin_held: bool = False,
    with_samples: bool = True,
) -> Policy:
    """Build the config's policy from the survey: see `PolicyInputs` for the options.

    The seed is the config's unless it is given.
    """
    inputs = PolicyInputs(
        config,
        survey,
        config.run.seed if seed is None else seed,
        begin_held=begin_held,
        with_samples=with_samples,
    )
    name = config.algorithm.policy
    return build_policy(POLICIES[name].build, inputs, name)


def build_policy(
    build: Callable[[PolicyInputs], Policy], inputs: PolicyInputs, name: str
) -> Policy:
    """The policy that `build` makes of its inputs; ConfigError if it cannot be used."""
    length = inputs.config.physical.region_length
    try:
        policy = build(inputs)
        require_members(policy, Policy, f"the policy {name}")
        start = float(policy.start_position)
        for capability in (HasPosterior, HasSettings, HasSurface):
            isinstance(policy, capability)  # it reads properties, which may raise anything
    except MacontrolError:
        raise
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"the policy {name} cannot be built: {described(error)}", "correct the policy"
        ) from error
    if not 0 <= start <= length:
        raise ConfigError(
            f"the policy {name} starts at {start!r}, off the rail",
            f"its start_position must be in [0, {length:g}] wavelengths",
        )
    return policy
