"""The registered policies, and the one function that builds a policy for slot 1.

A policy is a package that exposes DESCRIPTION: in this folder, or in another distribution under the
entry-point group `macontrol.policies`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from macontrol.config import policies
from macontrol.config.model.errors import ConfigError, MacontrolError, described
from macontrol.config.model.registry import Registry, require_members
from macontrol.controller.policies.description import PolicyDescription, PolicyInputs
from macontrol.controller.policies.policy import Policy

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
    try:
        policy = POLICIES[name].build(inputs)
        require_members(policy, Policy, f"the policy {name}")
        start = float(policy.start_position)
    except MacontrolError:
        raise
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"the policy {name} cannot be built: {described(error)}", "correct the policy"
        ) from error
    if not 0 <= start <= config.physical.region_length:
        raise ConfigError(
            f"the policy {name} starts at {start!r}, off the rail",
            f"its start_position must be in [0, {config.physical.region_length:g}] wavelengths",
        )
    return policy
