"""Replay a policy on a recorded or simulated reward map, and compare it with the oracle.

The policy observes what it would observe in a run: the reward at its position, with the map's
noise. It begins at x_0, as the oracle does, and pays for every movement.

The map contains its configuration. --set and --config change it; --preset replaces it. Every
setting that then differs from the map's is printed.

The map of a real site is known where it was measured. Between two measurements the reward is
linear: in space if they are at most 0.125 wavelengths apart, in time if they are at most
--longest-gap apart (default: w slots of the map's own configuration). Elsewhere it is unknown:
there the policy observes nothing, and the slot does not count in the rewards. There is a regret
only if the reward is known everywhere.
"""

from __future__ import annotations

import argparse
import csv
import json
from math import isnan
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table

from macontrol.commands.shared_arguments import (
    add_config_arguments,
    config_from,
    plot_file,
    plotting,
    positive_number,
    refuse_input_as_output,
    seed_number,
)
from macontrol.config import Config, differing_keys
from macontrol.config.files.atomic_file import atomic_text
from macontrol.config.model.errors import DataError
from macontrol.controller.policies.theory import Verdict
from macontrol.sim.research.episode import Episode, outcome_of, play
from macontrol.sim.world.partial import fill
from macontrol.sim.world.rewardmap import RewardMap, load_map, map_config
from macontrol.standard_streams import print_written

LIVE_SECTIONS = ("timing", "stage", "probe")
"""Sections that a replay does not use."""
WORLD_SECTIONS = ("channel", "drift")
"""Sections that determined the map's rewards; a change has no effect on them."""
NO_REGRET = "No regret: the oracle needs the reward everywhere, and the map is known in part."
WORLD_NOTICE = "The map's rewards do not change: its channel and drift determined them."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("map", type=Path, metavar="MAP.npz", help="the reward map")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write one row per slot")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the outcome")
    parser.add_argument("--plot", type=plot_file, metavar="FILE", help="draw it (PNG, SVG or PDF)")
    parser.add_argument(
        "--seed", type=seed_number, help="seed of a random policy (default: run.seed)"
    )
    parser.add_argument(
        "--longest-gap",
        type=positive_number,
        metavar="SECONDS",
        help="interpolate between measurements at most this far apart in time",
    )
    add_config_arguments(parser, policy=True, preset="the map's configuration")


def main(arguments: argparse.Namespace) -> int:
    for option in ("csv", "json", "plot"):
        output = getattr(arguments, option)
        refuse_input_as_output(f"--{option}", output, arguments.map, "map")
    try:
        stored = map_config(arguments.map)
    except DataError:
        if arguments.preset is None:
            raise
        stored = None
    config = config_from(arguments, base=stored)
    differences = {} if stored is None else _differences(config, stored)
    filled = fill(load_map(arguments.map, config), stored or config, arguments.longest_gap)
    world = filled.world
    episode = play(config, world, seed=config.run.seed, meter=True)
    outcome = outcome_of(config, episode, filled)
    outcome["differs_from_map"] = {key: list(values) for key, values in differences.items()}
    if arguments.csv:
        with atomic_text(arguments.csv) as file:
            write_slots(file, episode)
    if arguments.json:
        with atomic_text(arguments.json) as file:
            json.dump(outcome, file, indent=2, allow_nan=False)
            file.write("\n")
    if arguments.plot:
        _plot(arguments.plot, config, world, episode)
    console = Console()
    _show(console, outcome, episode.theory, differences)
    print_written(console, arguments.csv, arguments.json, arguments.plot)
    return 0


def _differences(config: Config, stored: Config) -> dict[str, tuple[Any, Any]]:
    """The settings that a replay uses and that differ from the map's, with both values."""
    return {
        key: values
        for key, values in differing_keys(config, stored).items()
        if key.partition(".")[0] not in LIVE_SECTIONS
    }


def write_slots(file: TextIO, episode: Episode) -> None:
    """One row per slot; positions in wavelengths, the reward as it was observed, if it was."""
    run = episode.trajectory
    writer = csv.writer(file)
    writer.writerow(["slot", "position", "target", "reward", "switched", "transit"])
    columns = (run.position, run.target, episode.observed, run.switched, run.transit)
    for slot, (x, z, r, switched, transit) in enumerate(zip(*columns, strict=True), start=1):
        seen = "" if isnan(r) else repr(float(r))
        writer.writerow([slot, repr(float(x)), repr(float(z)), seen, int(switched), int(transit)])


def _plot(path: Path, config: Config, world: RewardMap, episode: Episode) -> None:
    with plotting():
        from macontrol.sim.research.plots.rail import draw_episode
    draw_episode(path, config, world, episode)


def _show(
    console: Console,
    outcome: dict[str, Any],
    theory: dict[str, Verdict],
    differences: dict[str, tuple[Any, Any]],
) -> None:
    for key, (value, stored) in differences.items():
        console.print(f"{key} = {value!r}; the map has {stored!r}", highlight=False, markup=False)
    if any(key.partition(".")[0] in WORLD_SECTIONS for key in differences):
        console.print(WORLD_NOTICE)
    table = Table(title=f"{outcome['policy']}, {outcome['slots']} slots", show_header=False)
    table.add_row("regret per slot", _shown(outcome["regret_per_slot"]))
    table.add_row("reward per slot", _shown(outcome["reward_per_slot"]))
    table.add_row("oracle per slot, net of travel", _shown(outcome["oracle_per_slot"]))
    table.add_row("travel", f"{outcome['travel']:.2f} wavelengths")
    table.add_row("target switches", str(outcome["switches"]))
    table.add_row("share of slots in transit", f"{outcome['transit_share']:.1%}")
    if outcome["measured_share"] < 1:
        table.add_row("decisions after a measured reward", f"{outcome['measured_share']:.1%}")
        table.add_row("after an interpolated one", f"{outcome['interpolated_share']:.1%}")
        table.add_row("after none: the place is unknown", f"{outcome['unknown_share']:.1%}")
    for verdict in theory.values():
        if verdict.holds is not None:
            found = "holds" if verdict.holds else "VIOLATED"
            table.add_row(verdict.statement, f"{verdict.value:.4g} ≤ {verdict.bound:.4g}: {found}")
    console.print(table)
    if outcome["oracle_per_slot"] is None:
        console.print(NO_REGRET)


def _shown(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4f}"
