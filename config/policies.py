"""The policies, as far as a config needs them: their names and which settings they use.

Policies live in `controller` and in other distributions. They are found when they are used, so that
config imports none of them.
"""

from __future__ import annotations

from typing import Any, Protocol

from macontrol.config.model.registry import Registry


class PolicyFacts(Protocol):
    """What config uses of a description; `controller.policies.description` has all of it."""

    @property
    def name(self) -> str: ...
    @property
    def optimal_beta(self) -> float: ...
    @property
    def settings(self) -> type[Any] | None: ...
    @property
    def uses(self) -> frozenset[str] | None: ...


POLICIES: Registry[PolicyFacts] = Registry(
    "policy",
    "macontrol.controller.policies",
    "macontrol.policies",
    "macontrol.controller.policies.description:PolicyDescription",
    marker="__init__.py",
    dash="-",
)


def unused_settings(policy: str) -> set[str]:
    """The settings of built-in policies that this one does not use, or whole sections of them."""
    if (used := POLICIES[policy].uses) is None:
        return set()
    of_all = (POLICIES[name].uses or frozenset() for name in POLICIES.built_in_names())
    return set[str]().union(*of_all) - used
