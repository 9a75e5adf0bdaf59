"""Simulate a world: the reward everywhere on the rail, slot by slot, written to a file.

`macontrol replay` reads the file: an npz archive with the noise-free `reward` (slots × grid), the
`noise` of each slot, and the survey (`survey_position` in wavelengths, `survey_reward`). It also
contains the config and what made the map: world, speed, seed, versions, V_T/T. The same seed gives
the same world.

The world `paper` is the channel of the paper. The worlds ieee-a … ieee-f are the indoor models of
IEEE 802.11, which this project did not write; they need quadriga-lib. Their mean SNR over the map
is that of the option --snr.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from macontrol.commands.shared_arguments import (
    add_config_arguments,
    config_from,
    number,
    positive_int,
    positive_number,
    seed_number,
)
from macontrol.config import Config
from macontrol.config.model.errors import UsageError
from macontrol.sim.world.ieee import FAST, SLOW
from macontrol.sim.world.worlds import PAPER, WORLDS, World

_LARGEST_GIB = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seed", type=seed_number, required=True, help="seed of the simulated world"
    )
    parser.add_argument(
        "--world", choices=WORLDS, default=PAPER, help="the channel model (default: paper)"
    )
    parser.add_argument(
        "--speed",
        type=positive_number,
        help="of the paper's world: steps of its drift per slot (default: 1); of the others: "
        f"motion of the environment in wavelengths per slot (default: {SLOW}, V_T/T about 0.015; "
        f"{FAST} is about 0.08)",
    )
    parser.add_argument("--snr", type=number, metavar="DB", help="the mean SNR in dB (default: 10)")
    parser.add_argument(
        "--rail",
        type=positive_number,
        metavar="WAVELENGTHS",
        help="the length of the rail in wavelengths (default: 6)",
    )
    paper = parser.add_argument_group("the paper's world")
    paper.add_argument("--scenario", choices=("blocked", "dense"), help="default: blocked")
    paper.add_argument("--drift", choices=("continuous", "piecewise"), help="default: continuous")
    paper.add_argument(
        "--phases",
        choices=("aligned", "random"),
        help="of the sub-rays at x = 0 (default: aligned)",
    )
    parser.add_argument("--slots", type=positive_int, help="number of slots (default: 15300)")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="MAP.npz", help="the file to write"
    )
    add_config_arguments(parser)


def main(arguments: argparse.Namespace) -> int:
    if arguments.world != PAPER:
        for option in ("scenario", "drift", "phases"):
            if getattr(arguments, option) is not None:
                raise UsageError(f"--{option} is an option of --world paper", "leave it out")
    chosen = {
        "channel.scenario": arguments.scenario,
        "channel.sub_ray_phases": arguments.phases,
        "drift.model": arguments.drift,
        "physical.region_length": arguments.rail,
        "reward.snr_db": arguments.snr,
        "run.horizon": arguments.slots,
    }
    config = config_from(
        arguments, *(f"{key}={value}" for key, value in chosen.items() if value is not None)
    )
    _refuse_large(config)
    world = World.named(arguments.world, arguments.speed)
    config = world.config_of(config)
    made = world.simulate(config, config.run.seed, config.run.horizon)
    origin = world.origin(config.run.seed, made)
    made.save(arguments.out, seed=config.run.seed, config=config, origin=origin)
    slots, positions = made.reward.shape
    model = f"{config.channel.scenario}, {config.drift.model} drift"
    Console().print(
        f"{arguments.out}: {slots} slots × {positions} positions, "
        f"{model if world.name == PAPER else world.name}, speed {world.speed:g}, "
        f"V_T/T = {origin['variation_per_slot']:.3f}",
        highlight=False,
        soft_wrap=True,
    )
    return 0


def _refuse_large(config: Config) -> None:
    size_gib = 8 * config.run.horizon * config.grid_size / 2**30
    if size_gib > _LARGEST_GIB:
        most = int(_LARGEST_GIB * 2**30 / (8 * config.grid_size))
        raise UsageError(
            f"--slots {config.run.horizon}: the map would take {size_gib:.0f} GiB",
            f"at {config.grid_size} positions, {_LARGEST_GIB} GiB hold at most {most} slots",
        )
