"""The policies of a panel, each with settings: as registered, a variant of it, or any settings."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from macontrol.config import Config, load_config
from macontrol.config.model.errors import UsageError
from macontrol.config.model.registry import is_reference
from macontrol.config.model.suggestion import did_you_mean, shortened
from macontrol.controller.policies.registry import POLICIES
from macontrol.sim.research.figures.setting import POLICIES as FIGURE_POLICIES
from macontrol.sim.research.figures.setting import canonical

REFERENCE = FIGURE_POLICIES["MoveUCB"]
"""The policy that all are compared with, with the settings of the paper."""


@dataclass(frozen=True)
class Contender:
    """A policy with the settings that differ from those of the cell."""

    label: str
    policy: str
    assignments: tuple[str, ...] = ()
    """As for `--set`."""

    def config(self, config: Config) -> Config:
        """The config of this policy in a world of `config`."""
        chosen = f"algorithm.policy={json.dumps(self.policy)}"
        return canonical(load_config(assignments=[chosen, *self.assignments], base=config))


def contenders(
    names: Iterable[str] | None, variants: Iterable[str], config: Config
) -> list[Contender]:
    """The reference, then the policies by name, then those of `--variant`; UsageError if wrong.

    Without names, all built-in policies and their variants. Every setting is tried on `config`.
    """
    named = [by_name(name) for name in (every_name() if names is None else names)]
    wanted = [Contender(REFERENCE, REFERENCE), *named, *(by_settings(text) for text in variants)]
    found: dict[str, Contender] = {}
    for contender in wanted:
        if found.setdefault(contender.label, contender) != contender:
            raise UsageError(
                f"two policies of the panel are called {contender.label}", "rename one of them"
            )
    for contender in found.values():
        contender.config(config)
    return list(found.values())


def every_name() -> list[str]:
    """All built-in policies and their variants."""
    return [
        each
        for name in POLICIES.built_in_names()
        for each in (name, *(f"{name}:{variant}" for variant in POLICIES[name].variants))
    ]


def by_name(name: str) -> Contender:
    """POLICY, POLICY:VARIANT or package.module:Class."""
    policy, _, variant = name.partition(":")
    if policy in POLICIES.names() and variant:
        variants = POLICIES[policy].variants
        if variant not in variants:
            raise UsageError(
                f"the policy {policy} has no variant {shortened(variant)}",
                did_you_mean(variant, list(variants)) if variants else "it has none",
            )
        settings = variants[variant].items()
        return Contender(name, policy, tuple(f"{key}={json.dumps(v)}" for key, v in settings))
    if name in POLICIES.names() or is_reference(name):
        return Contender(name, name)
    raise UsageError(f"there is no policy {shortened(name)}", did_you_mean(name, every_name()))


def by_settings(text: str) -> Contender:
    """`LABEL=POLICY SECTION.KEY=VALUE …`, the argument of `--variant`."""
    try:
        first, *assignments = shlex.split(text)
    except ValueError:
        first, assignments = "", []
    label, equals, name = first.partition("=")
    if not (equals and label and name):
        raise UsageError(
            f"--variant {shortened(text)}: no policy",
            "write LABEL=POLICY SECTION.KEY=VALUE …, as in "
            f"'short={REFERENCE} algorithm.window=100'",
        )
    start = by_name(name)
    return Contender(label, start.policy, (*start.assignments, *assignments))
