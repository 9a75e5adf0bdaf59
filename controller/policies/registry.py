"""The registered policies, and the one function that builds a policy for slot 1.

A policy is a package that exposes DESCRIPTION: in this folder, or in another distribution under the
entry-point group `macontrol.policies`.
"""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from macontrol.config.model.registry import Registry
from macontrol.controller.policies.description import PolicyDescription, PolicyInputs
from macontrol.controller.policies.policy import Policy

if TYPE_CHECKING:
    from macontrol.config import Config
    from macontrol.controller.survey.samples import Survey


class PolicyRegistry(Registry[PolicyDescription]):
    """The policies by name; a name is spelled with dashes, its package with underscores."""

    @cached_property
    def _built_in(self) -> dict[str, Path]:
        packages = Path(__file__).parent.glob("*/__init__.py")
        return {file.parent.name.replace("_", "-"): file.parent for file in sorted(packages)}

    def _load(self, name: str) -> PolicyDescription:
        if name not in self._built_in:
            return super()._load(name)
        module = import_module(f"{self._package}.{self._built_in[name].name}")
        description: PolicyDescription = module.DESCRIPTION
        return description


POLICIES = PolicyRegistry("policy", "macontrol.controller.policies", "macontrol.policies")


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
