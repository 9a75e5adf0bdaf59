"""The policies, as far as a config needs them: their names and which settings they use.

Policies live in `controller` and in other distributions. They are found when they are used, so that
config imports none of them.
"""

from __future__ import annotations

from typing import Protocol

from macontrol.config.model.registry import Registry
from macontrol.config.model.suggestion import did_you_mean


class PolicyFacts(Protocol):
    """What config uses of a description; `controller.policies.description` has all of it."""

    @property
    def optimal_beta(self) -> float: ...
    @property
    def settings(self) -> frozenset[str]: ...


POLICIES: Registry[PolicyFacts] = Registry(
    "policy",
    "macontrol.controller.policies",
    "macontrol.policies",
    "macontrol.controller.policies.description:PolicyDescription",
    marker="__init__.py",
    dash="-",
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
