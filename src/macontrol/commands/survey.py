"""Measure the reward along the rail once, and write it to a file, with --plot also as a picture.

The stage moves from position to position by strokes, through the guard, and stands still during a
measurement. First the noise floor of a real radio is measured: the transmitter must be off then,
and on afterwards. A real stage is homed first, with --yes or after you agree. Its survey is also
kept for the next run on the same board, which uses the samples within the window's time and
sigma_f for survey.fresh_s.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

from rich.console import Console
from rich.table import Table

from macontrol.commands.shared_arguments import (
    BY_BACKEND,
    add_bench_arguments,
    add_config_arguments,
    bench_config_from,
    plot_file,
    plotting,
    seed_number,
)
from macontrol.config import Config
from macontrol.config.files.atomic_file import check_output
from macontrol.config.files.free_space import FreeSpace
from macontrol.config.model.errors import ProbeError, StageError
from macontrol.controller.host.instance import InstanceLock
from macontrol.controller.runtime.clock import VirtualClock, WallClock
from macontrol.controller.survey.file import keep_survey, save_survey
from macontrol.controller.survey.samples import Survey
from macontrol.controller.survey.walk import walk_rail
from macontrol.display.survey_progress import survey_progress
from macontrol.hal import Backend, Clock
from macontrol.hal.serial.traffic_log import TrafficFile
from macontrol.recorders import FaultReporter
from macontrol.serial_bench import SerialBench, may_home, require_consent
from macontrol.sim.bench.simulated import SimulatedBench
from macontrol.stop_signals import ForcedStop, StopSignals

Draw = Callable[[Path, Config, Survey], None]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--backend",
        choices=("sim", "serial"),
        required=True,
        help="survey a simulated bench (at once), or a stage and a radio",
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE.npz", help="the file to write"
    )
    parser.add_argument("--plot", type=plot_file, metavar="FILE", help="draw it (PNG, SVG or PDF)")
    parser.add_argument("--seed", type=seed_number, metavar="N", help="seed of the simulated world")
    add_bench_arguments(parser)
    add_config_arguments(parser, preset=BY_BACKEND)


def main(arguments: argparse.Namespace) -> int:
    serial = arguments.backend == "serial"
    seed = [] if arguments.seed is None else [f"run.seed={arguments.seed}"]
    config = bench_config_from(arguments, *seed)
    # A survey takes minutes: check first what would fail at its end.
    draw = _drawing() if arguments.plot is not None else None
    for path in (arguments.out, arguments.plot):
        if path is not None:
            check_output(path)
    console, signals = Console(), StopSignals()
    survey: Survey | None = None
    identity: Mapping[str, str] = {}
    try:
        survey, identity = _survey(config, console, signals, arguments)
    except ForcedStop:
        return 128 + signals.first
    except (StageError, ProbeError):
        if not signals.first:
            raise
    if signals.first or survey is None:
        print("macontrol: stopped before the end; nothing was written", file=sys.stderr)
        return 128 + signals.first
    save_survey(arguments.out, config, survey, identity)
    if serial and (problem := keep_survey(config, survey, identity)):
        print(f"macontrol: {problem}", file=sys.stderr)
    if draw is not None:
        draw(arguments.plot, config, survey)
    console.print(_table(arguments.out, config, survey))
    for path in (arguments.out, arguments.plot):
        if path is not None:
            _print(console, f"Written: {path}")
    return 0


def _survey(
    config: Config, console: Console, signals: StopSignals, arguments: argparse.Namespace
) -> tuple[Survey, Mapping[str, str]]:
    """The survey, and the identity of its bench."""
    clock: Clock = WallClock() if arguments.backend == "serial" else VirtualClock()
    with ExitStack() as closing:
        closing.enter_context(signals)
        bench = open_bench(config, clock, closing, console, signals, arguments)
        survey = _walk(config, bench, clock, console, signals)
        with suppress(StageError):  # the survey is complete; a lost stage is closed anyway
            bench.stage.stop()
    return survey, bench.identity


def open_bench(
    config: Config,
    clock: Clock,
    closing: ExitStack,
    console: Console,
    signals: StopSignals,
    arguments: argparse.Namespace,
) -> Backend:
    """The bench of a command that measures along the rail; a real stage is homed first."""
    if arguments.backend == "sim":
        return SimulatedBench(config, clock, seed=config.run.seed)
    at_terminal = sys.stdin.isatty() and console.is_terminal
    require_consent(config, yes=arguments.yes, at_terminal=at_terminal)
    closing.enter_context(InstanceLock(config.stage.port_path))

    log = None
    if arguments.traffic is not None:
        room = FreeSpace(arguments.traffic, config.run.free_space_floor_mb)
        log = TrafficFile(
            arguments.traffic, clock, on_problem=lambda text: _print(console, text), room=room
        )
        closing.callback(lambda: _print_lost(console, log))
        closing.enter_context(log)
    bench = SerialBench(
        config,
        clock,
        confirm_homing=lambda: may_home(
            yes=arguments.yes, at_terminal=at_terminal, stop=signals.stop
        ),
        report=lambda text: _print(console, text),
        log=log,
        stop=signals.stop,
    )
    bench.open(closing)
    return bench


def _walk(
    config: Config, bench: Backend, clock: Clock, console: Console, signals: StopSignals
) -> Survey:
    positions = len(config.survey_positions)
    with survey_progress(positions, shown=console.is_terminal, console=console) as on_progress:
        return walk_rail(
            config,
            bench,
            clock,
            FaultReporter(lambda text: _print(console, text)),
            stop=signals.stop,
            on_progress=on_progress,
        )


def _drawing() -> Draw:
    with plotting():
        from macontrol.sim.research.plots.rail import draw_survey
    return draw_survey


def _table(path: Path, config: Config, survey: Survey) -> Table:
    best, best_mm = survey.best_position, config.physical.to_mm(survey.best_position)
    reward, wanted = survey.reward, len(config.survey_positions)
    table = Table(title=f"survey in {path}", show_header=False)
    table.add_row("positions measured", f"{len(reward)} of {wanted}")
    table.add_row("best position", f"{best:.3f} wavelengths, {best_mm:.1f} mm")
    table.add_row("reward there", f"{reward.max():.3f}")
    table.add_row("on average", f"{reward.mean():.3f}, at worst {reward.min():.3f}")
    table.add_row("sigma_f", f"{survey.sigma_f2(config) ** 0.5:.3f}")
    return table


def _print_lost(console: Console, log: TrafficFile) -> None:
    if log.lost:
        _print(console, f"{log.lost} entries of the traffic log are lost")


def _print(console: Console, text: str) -> None:
    console.print(text, soft_wrap=True, highlight=False, markup=False)
