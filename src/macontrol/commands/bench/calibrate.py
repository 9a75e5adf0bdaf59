"""Calibrate simulated worlds: do the intervals hold, and do the settings help?

--worlds calibrates random worlds of the paper's channel (noise 0.5 to 2 times, sector of 40 to 180
degrees, spread of 1 to 15 degrees, drift 0.25 to 4 times, a backlash) on the simulated bench of a
preset, and counts how often each interval has what the simulator was given. --replays calibrates
the first part of worlds of the IEEE models (A to F in turn, slow and fast) and replays MoveUCB on
the rest, with the paper's settings and with the calibrated ones.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from macontrol.commands.bench.bars import (
    Bar,
    add_output_arguments,
    exit_code,
    show_bars,
    wide_console,
)
from macontrol.commands.shared_arguments import positive_int, seed_number
from macontrol.config import preset_names
from macontrol.config.presets import DEFAULT_PRESET
from macontrol.controller.survey.calibration.plan import MINUTES
from macontrol.sim.research.calibrations import Compared, Recovered, compare, recover
from macontrol.sim.world.ieee import FAST, MODELS, SLOW
from macontrol.sim.world.worlds import World

SUMMARY = "whether calibrations hold what a simulated world was given, and whether they help"

_LEAST_SHARE = 0.9
# Half of the width of an interval, as a share of the value, is shown as precision.
_STANDARD_ERRORS = 2.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--worlds", type=positive_int, metavar="N", help="random worlds")
    parser.add_argument("--replays", type=positive_int, metavar="N", help="IEEE worlds to replay")
    parser.add_argument(
        "--minutes", type=int, choices=MINUTES, default=2, help="of a random world (default: 2)"
    )
    parser.add_argument(
        "--preset",
        choices=preset_names(),
        default=DEFAULT_PRESET,
        help=f"the bench of the random worlds (default: {DEFAULT_PRESET})",
    )
    parser.add_argument(
        "--seed", type=seed_number, default=1, metavar="N", help="the first seed (default: 1)"
    )
    add_output_arguments(parser)


def main(arguments: argparse.Namespace) -> int:
    console = wide_console()
    quiet = Console(stderr=True)
    bars: list[Bar] = []
    results: dict[str, Any] = {}
    worlds = arguments.worlds or (0 if arguments.replays else 10)
    if worlds:
        found = []
        for number in range(worlds):
            found.append(recover(arguments.seed + number, arguments.minutes, arguments.preset))
            quiet.print(f"world {number + 1} of {worlds}: missed {_missed(found[-1])}")
        results["recovered"] = _coverage(found)
        bars += [
            Bar(
                f"{name}: the interval has the true value",
                f"{one['holds']} of {worlds}",
                one["holds"] >= _LEAST_SHARE * worlds,
            )
            for name, one in results["recovered"].items()
        ]
        if not arguments.json:
            console.print(_coverage_table(results["recovered"], worlds))
    if arguments.replays:
        compared = []
        for number in range(arguments.replays):
            compared.append(compare(*_ieee_world(number, arguments.seed)))
            quiet.print(_one_line(compared[-1]))
        results["replayed"] = _differences(compared)
        bars.append(_bar(results["replayed"]["calibrated"], len(compared)))
        if not arguments.json:
            console.print(_replay_table(results["replayed"], len(compared)))
    if arguments.json:
        print(json.dumps(results, indent=2))
    else:
        show_bars(console, bars)
    return exit_code(bars, strict=arguments.strict)


def _missed(found: dict[str, Recovered]) -> str:
    return ", ".join(name for name, one in found.items() if not one.holds) or "nothing"


def _coverage(found: list[dict[str, Recovered]]) -> dict[str, dict[str, float]]:
    """Of each quantity, how often the interval holds, and how wide it is."""
    rows = {}
    for name in found[0]:
        each = [one[name] for one in found]
        widths = [
            (one.estimate.high - one.estimate.low) / 2
            for one in each
            if np.isfinite(one.estimate.high)
        ]
        rows[name] = {
            "holds": sum(one.holds for one in each),
            "half_width": float(np.median(widths)) if widths else float("inf"),
            "truth": float(np.median([one.truth for one in each])),
            "unbounded": len(each) - len(widths),
        }
    return rows


def _coverage_table(rows: dict[str, dict[str, float]], worlds: int) -> Table:
    table = Table(title=f"{worlds} random worlds, intervals of 95 %")
    for head in ("quantity", "holds", "median of the truth", "median half width", "open intervals"):
        table.add_column(head)
    for name, row in rows.items():
        table.add_row(
            name,
            f"{row['holds']:.0f} of {worlds}",
            f"{row['truth']:.3g}",
            f"{row['half_width']:.3g}",
            f"{row['unbounded']:.0f}",
        )
    return table


def _ieee_world(number: int, seed: int) -> tuple[World, int]:
    """All models at both speeds, then with the next seed."""
    model, speed = number % len(MODELS), number // len(MODELS) % 2
    name = f"ieee-{MODELS[model].lower()}"
    return World.named(name, (SLOW, FAST)[speed]), seed + number // (2 * len(MODELS))


def _one_line(one: Compared) -> str:
    return (
        f"{one.world.name} at {one.world.speed:g}, seed {one.seed}: regret {one.paper:.3f}, with "
        f"the offset {one.offset:.3f}, calibrated {one.calibrated:.3f}"
    )


def _differences(compared: list[Compared]) -> dict[str, dict[str, float]]:
    paper = np.array([one.paper for one in compared])
    rows: dict[str, dict[str, float]] = {"paper": {"regret": float(paper.mean())}}
    for name in ("offset", "calibrated"):
        regret = np.array([getattr(one, name) for one in compared])
        difference = regret - paper
        count = len(difference)
        error = float(difference.std(ddof=1) / count**0.5) if count > 1 else float("nan")
        rows[name] = {
            "regret": float(regret.mean()),
            "difference": float(difference.mean()),
            "standard_error": error,
            "lower": int((difference < 0).sum()),
        }
    return rows


def _bar(row: dict[str, float], worlds: int) -> Bar:
    clear = row["difference"] + _STANDARD_ERRORS * row["standard_error"] < 0
    measured = f"{row['difference']:+.4f} ± {row['standard_error']:.4f}"
    return Bar(
        f"calibrated settings have lower mean regret over {worlds} worlds, by more than two "
        "standard errors",
        measured,
        clear if worlds > 1 else None,
    )


def _replay_table(rows: dict[str, dict[str, float]], worlds: int) -> Table:
    table = Table(title=f"MoveUCB on {worlds} IEEE worlds, regret per slot")
    for head in ("settings", "mean regret", "difference to the paper's", "lower in"):
        table.add_column(head)
    for name, row in rows.items():
        difference = (
            f"{row['difference']:+.4f} ± {row['standard_error']:.4f}" if name != "paper" else ""
        )
        lower = f"{row['lower']:.0f} worlds" if name != "paper" else ""
        table.add_row(name, f"{row['regret']:.4f}", difference, lower)
    return table
