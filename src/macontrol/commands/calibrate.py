"""Measure what a run needs to know of its site, and write settings and a report page.

The stage walks the rail in both directions, hops, and stands still, by strokes and through the
guard, for the time that --minutes chooses. From the rewards follow, each with an interval: the
noise, mean and sigma_f of the reward, its coherence in time and along the rail, the backlash, the
settling, and the kernel that explains the site best. The TOML file has the settings for a run
(--config), with the reason of each. The page explains every figure.
With --walks the walks are kept, also those before a stop or a fault.

First the noise floor of a real radio is measured: the transmitter must be off then, and on
afterwards. A real stage is homed first, with --yes or after you agree.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

from rich.console import Console
from rich.table import Table

from macontrol.commands.opened_bench import open_bench
from macontrol.commands.shared_arguments import (
    BY_BACKEND,
    add_bench_arguments,
    add_config_arguments,
    bench_config_from,
    seed_number,
)
from macontrol.config import Config
from macontrol.config.files.atomic_file import atomic_text, check_output
from macontrol.config.model.errors import ProbeError, StageError, UsageError
from macontrol.config.presets import DEFAULT_PRESET
from macontrol.config.toml_text import read_toml
from macontrol.controller.runtime.clock import VirtualClock, WallClock
from macontrol.controller.survey.calibration.advice import lead_text
from macontrol.controller.survey.calibration.plan import MINUTES, Plan, plan_for
from macontrol.controller.survey.calibration.result import Calibration, evaluate
from macontrol.controller.survey.calibration.samples import Samples
from macontrol.controller.survey.calibration.walking import CalibrationWalk
from macontrol.controller.survey.file import save_walks
from macontrol.display.calibration_progress import calibration_progress
from macontrol.hal import Clock
from macontrol.recorders import FaultReporter
from macontrol.reports.calibration_report import calibration_page, quantities
from macontrol.site_file import site_text
from macontrol.standard_streams import print_plain, print_written
from macontrol.stop_signals import ForcedStop, StopSignals


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--backend",
        choices=("sim", "serial"),
        required=True,
        help="calibrate a simulated bench (at once), or a stage and a probe",
    )
    parser.add_argument(
        "--minutes", type=int, choices=MINUTES, default=5, help="how long to measure (default: 5)"
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE.toml", help="the settings to write"
    )
    parser.add_argument(
        "--report",
        type=Path,
        metavar="FILE.html",
        help="the page to write (default: beside the settings, with the ending .html)",
    )
    parser.add_argument(
        "--walks",
        type=Path,
        metavar="FILE.npz",
        help="keep the walks as those of a survey, for `macontrol export` and `replay`",
    )
    parser.add_argument("--seed", type=seed_number, metavar="N", help="seed of the simulated world")
    add_bench_arguments(parser)
    add_config_arguments(parser, preset=BY_BACKEND)


def main(arguments: argparse.Namespace) -> int:
    config = bench_config_from(arguments)
    preset = _preset(arguments)
    out: Path = arguments.out
    page: Path = arguments.report or out.with_suffix(".html")
    if page == out:
        raise UsageError(f"--out {out}: the page would have the same name", "give --report")
    # A calibration takes minutes: check first what would fail at its end.
    for path in (out, page, arguments.walks):
        if path is not None:
            check_output(path)
    plan = plan_for(config, arguments.minutes)
    console, signals = Console(), StopSignals()
    samples: Samples | None = None
    identity: Mapping[str, str] = {}
    try:
        samples, identity = _measure(config, plan, console, signals, arguments)
    except ForcedStop:
        return 128 + signals.first
    except (StageError, ProbeError):
        if not signals.first:
            raise
    if signals.first or samples is None:
        print("macontrol: stopped before the end; no settings were written", file=sys.stderr)
        return 128 + signals.first
    now_s = time.time()
    calibration = evaluate(config, plan, samples)
    with atomic_text(out) as file:
        file.write(site_text(config, preset, calibration, identity, now_s=now_s))
    with atomic_text(page) as file:
        file.write(calibration_page(config, calibration, identity, now_s=now_s))
    _show(console, config, calibration)
    print_written(console, out, page)
    return 0


def _preset(arguments: argparse.Namespace) -> str:
    """The preset that the config builds on."""
    if arguments.preset is not None:
        return str(arguments.preset)
    tables = {} if arguments.config is None else read_toml(arguments.config)[0]
    return str(tables.get("preset", DEFAULT_PRESET))


def _measure(
    config: Config,
    plan: Plan,
    console: Console,
    signals: StopSignals,
    arguments: argparse.Namespace,
) -> tuple[Samples, Mapping[str, str]]:
    """The samples of the plan, and the identity of the bench."""
    clock: Clock = WallClock() if arguments.backend == "serial" else VirtualClock()

    def report(text: str) -> None:
        print_plain(console, text)

    with ExitStack() as closing:
        closing.enter_context(signals)
        bench = open_bench(config, clock, closing, console, signals, arguments)
        with calibration_progress(shown=console.is_terminal, console=console) as on_progress:
            walk = CalibrationWalk(
                config,
                bench,
                clock,
                FaultReporter(report),
                stop=signals.stop,
                on_progress=on_progress,
            )
            try:
                samples = walk.run(plan)
            finally:
                if arguments.walks is not None and walk.walks:
                    save_walks(arguments.walks, config, walk.walks, bench.identity)
                    print_written(console, arguments.walks)
        with suppress(StageError):  # the samples are complete; a lost stage is closed anyway
            bench.stage.stop()
    return samples, bench.identity


def _show(console: Console, config: Config, calibration: Calibration) -> None:
    table = Table(title=f"calibration, {len(calibration.samples)} rewards")
    for head in ("quantity", "value", "95 % interval", "unit"):
        table.add_column(head)
    for quantity in quantities(config, calibration):
        table.add_row(quantity.name, *quantity.texts(), quantity.unit)
    console.print(table)
    best, *others = calibration.fits
    for other in others:
        print_plain(console, f"kernel {best.name} {lead_text(best, other)}")
    for text in calibration.advice.notes:
        print_plain(console, f"note: {text}")
    for text in calibration.advice.warnings:
        console.print(f"warning: {text}", style="yellow", soft_wrap=True, highlight=False)
