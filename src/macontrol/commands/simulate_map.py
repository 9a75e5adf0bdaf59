"""Simulate a world: the reward everywhere on the rail, slot by slot, written to a file.

`macontrol replay` reads the file: an npz archive with the noise-free `reward` (slots × grid), the
`noise` of each slot, and the survey (`survey_position` in wavelengths, `survey_reward`). The same
seed gives the same world.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from macontrol.commands.shared_arguments import (
    add_config_arguments,
    config_from,
    positive_int,
    seed_number,
)
from macontrol.config.model.errors import UsageError
from macontrol.sim.world.rewardmap import simulate_map, variation_budget

_LARGEST_GIB = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seed", type=seed_number, required=True, help="seed of the simulated world"
    )
    parser.add_argument("--scenario", choices=("blocked", "dense"), help="default: blocked")
    parser.add_argument("--drift", choices=("continuous", "piecewise"), help="default: continuous")
    parser.add_argument("--slots", type=positive_int, help="number of slots (default: 15300)")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="MAP.npz", help="the file to write"
    )
    add_config_arguments(parser)


def main(arguments: argparse.Namespace) -> int:
    chosen = {
        "channel.scenario": arguments.scenario,
        "drift.model": arguments.drift,
        "run.horizon": arguments.slots,
        "run.seed": arguments.seed,
    }
    config = config_from(
        arguments, *(f"{key}={value}" for key, value in chosen.items() if value is not None)
    )
    size_gib = 8 * config.run.horizon * config.grid_size / 2**30
    if size_gib > _LARGEST_GIB:
        most = int(_LARGEST_GIB * 2**30 / (8 * config.grid_size))
        raise UsageError(
            f"--slots {config.run.horizon}: the map would take {size_gib:.0f} GiB",
            f"at {config.grid_size} positions, {_LARGEST_GIB} GiB hold at most {most} slots",
        )
    world = simulate_map(config, config.run.seed, config.run.horizon)
    world.save(arguments.out, seed=config.run.seed, config=config)
    slots, positions = world.reward.shape
    Console().print(
        f"{arguments.out}: {slots} slots × {positions} positions, {config.channel.scenario}, "
        f"{config.drift.model} drift, V_T/T = {variation_budget(world.reward) / slots:.3f}",
        highlight=False,
        soft_wrap=True,
    )
    return 0
