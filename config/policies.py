"""The policies, as far as a config needs them: their names and which settings they use.

Policies live in `controller` and in other distributions. They are found when they are used, so that
config imports none of them.
"""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Protocol

from macontrol.config.model.registry import ATTRIBUTE, Registry
from macontrol.config.model.suggestion import did_you_mean


class PolicyFacts(Protocol):
    """What config uses of a description; `controller.policies.description` has all of it."""

    @property
    def optimal_beta(self) -> float: ...
    @property
    def settings(self) -> frozenset[str]: ...


class PolicyRegistry(Registry[PolicyFacts]):
    """The policies by name; a name is spelled with dashes, its package with underscores."""

    @cached_property
    def _built_in(self) -> dict[str, Path]:
        folders = (Path(folder) for folder in import_module(self._package).__path__)
        found = (file.parent for folder in folders for file in folder.glob("*/__init__.py"))
        return {package.name.replace("_", "-"): package for package in sorted(found)}

    def _load(self, name: str) -> PolicyFacts:
        if name not in self._built_in:
            return super()._load(name)
        module = import_module(f"{self._package}.{self._built_in[name].name}")
        description: PolicyFacts = getattr(module, ATTRIBUTE)
        return description

    def __contains__(self, name: str) -> bool:
        return name in self._built_in or name in self._registered


POLICIES = PolicyRegistry(
    "policy",
    "macontrol.controller.policies",
    "macontrol.policies",
    "macontrol.controller.policies.description:PolicyDescription",
)


def known_policy(name: str) -> str:
    """Refuse a name that no policy has."""
    if name not in POLICIES:
        raise ValueError(f"no policy has this name; {did_you_mean(name, POLICIES.names())}")
    return name


def unused_settings(policy: str) -> set[str]:
    """The settings of other policies that this one does not use, or whole sections of them."""
    of_all = (description.settings for description in POLICIES.working())
    return set[str]().union(*of_all) - POLICIES[policy].settings
