"""The registered policies, and the one function that builds a policy for slot 1.

A policy is a package that exposes DESCRIPTION: in this folder, or in another distribution under the
entry-point group `macontrol.policies`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from macontrol.config import policies
from macontrol.config.model.registry import Registry
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
    return POLICIES[config.algorithm.policy].build(inputs)
