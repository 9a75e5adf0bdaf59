"""Options that several commands share, defined once."""

from __future__ import annotations

import argparse
from pathlib import Path

from macontrol.config import Config, load_config, preset_names

POLICIES = ("moveucb", "gp-ucb", "sweep-and-hold", "epsilon-greedy", "fixed")


def add_config_arguments(parser: argparse.ArgumentParser, *, policy: bool = False) -> None:
    """--config, --preset, --set and, where it makes sense, --policy."""
    group = parser.add_argument_group("configuration")
    group.add_argument("--config", type=Path, metavar="FILE", help="a TOML file of settings")
    group.add_argument(
        "--preset",
        metavar="NAME",
        help=f"what to start from: {', '.join(preset_names())} (default: paper)",
    )
    group.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="SECTION.KEY=VALUE",
        help="change one setting, as in algorithm.beta=2; may be given again",
    )
    if policy:
        group.add_argument(
            "--policy", choices=POLICIES, help="the policy (default: the config's, MoveUCB)"
        )


def config_from(arguments: argparse.Namespace, *extra: str) -> Config:
    """The config the options ask for; `extra` assignments come last."""
    policy = getattr(arguments, "policy", None)
    chosen = [f'algorithm.policy="{policy}"'] if policy else []
    return load_config(arguments.config, [*arguments.set, *chosen, *extra], preset=arguments.preset)


def positive_int(text: str) -> int:
    """An argument that counts something."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return value


def positive_number(text: str) -> float:
    """An argument that measures something."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def seed_number(text: str) -> int:
    """An argument that seeds a random generator."""
    try:
        value = int(text)
    except ValueError:
        value = -1
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 0")
    return value
