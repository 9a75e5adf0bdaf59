"""Measure the reward along the rail, and write it to a file, with --plot also as a picture.

The stage moves from position to position by strokes, through the guard, and stands still during a
measurement. First the noise floor of a real radio is measured: the transmitter must be off then
and on afterwards, unless commands switch it (`[tx]`). A real stage is homed first, with --yes or
after you agree. Its survey is also kept for the next run on the same board, which uses the samples
within the window's time and sigma_f for survey.fresh_s.

With --repeat N the rail is walked N times, there and back: `macontrol export --format map` makes
of 3 walks or more a map of the site over space and time, for `macontrol replay`. If you stop it
(Ctrl-C), or a device fails, the walks that are finished are kept. The table and the next run use
the last walk.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from macontrol.commands.opened_bench import open_bench
from macontrol.commands.shared_arguments import (
    BY_BACKEND,
    add_bench_arguments,
    add_config_arguments,
    bench_config_from,
    plot_file,
    plotting,
    positive_int,
    seed_number,
)
from macontrol.config import Config
from macontrol.config.files.atomic_file import check_output
from macontrol.config.model.errors import HardwareError, StageError
from macontrol.controller.runtime.clock import VirtualClock, WallClock
from macontrol.controller.survey.file import keep_survey, save_walks
from macontrol.controller.survey.samples import Survey
from macontrol.controller.survey.walk import SurveyWalk, rail_walk
from macontrol.display.survey_progress import survey_progress
from macontrol.hal import Clock
from macontrol.recorders import FaultReporter
from macontrol.standard_streams import print_plain, print_written
from macontrol.stop_signals import ForcedStop, StopSignals

Draw = Callable[[Path, Config, Sequence[Survey]], None]


@dataclass
class _Walked:
    """What is measured so far; it stays when the survey is stopped or fails."""

    walks: Sequence[Survey] = ()
    identity: Mapping[str, str] = field(default_factory=dict)


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
    parser.add_argument(
        "--repeat", type=positive_int, default=1, metavar="N", help="walk the rail N times"
    )
    parser.add_argument("--seed", type=seed_number, metavar="N", help="seed of the simulated world")
    add_bench_arguments(parser)
    add_config_arguments(parser, preset=BY_BACKEND)


def main(arguments: argparse.Namespace) -> int:
    config = bench_config_from(arguments)
    # A survey takes minutes: check first what would fail at its end.
    draw = _drawing() if arguments.plot is not None else None
    for path in (arguments.out, arguments.plot):
        if path is not None:
            check_output(path)
    console, signals, walked = Console(), StopSignals(), _Walked()
    failure: HardwareError | None = None
    try:
        _survey(config, console, signals, arguments, walked)
    except ForcedStop:
        pass
    except HardwareError as error:
        failure = None if signals.first else error
    if walked.walks:
        _write(arguments, config, walked, draw, console)
    finished, wanted = len(walked.walks), arguments.repeat
    if finished < wanted and (signals.first or finished):
        kept = f"the file has the {finished} before" if finished else "nothing was written"
        number = "" if wanted == 1 else f" of walk {finished + 1} of {wanted}"
        print(f"macontrol: stopped before the end{number}; {kept}", file=sys.stderr)
    if failure is not None:
        raise failure
    return 128 + signals.first if signals.first else 0


def _write(
    arguments: argparse.Namespace,
    config: Config,
    walked: _Walked,
    draw: Draw | None,
    console: Console,
) -> None:
    walks = walked.walks
    save_walks(arguments.out, config, walks, walked.identity)
    if arguments.backend == "serial":
        problem = keep_survey(config, walks[-1], walked.identity)
        if problem:
            print(f"macontrol: {problem}", file=sys.stderr)
    if draw is not None:
        draw(arguments.plot, config, walks)
    console.print(_table(arguments.out, config, walks))
    print_written(console, arguments.out, arguments.plot)


def _survey(
    config: Config,
    console: Console,
    signals: StopSignals,
    arguments: argparse.Namespace,
    walked: _Walked,
) -> None:
    """Walk the rail as often as requested."""
    clock: Clock = WallClock() if arguments.backend == "serial" else VirtualClock()
    with ExitStack() as closing:
        closing.enter_context(signals)
        bench = open_bench(config, clock, closing, console, signals, arguments)
        walked.identity = bench.identity
        walk = rail_walk(
            config,
            bench,
            clock,
            FaultReporter(lambda text: print_plain(console, text)),
            stop=signals.stop,
        )
        try:
            _walk(config, walk, arguments.repeat, console, signals)
        finally:
            walked.walks = walk.finished
        with suppress(StageError):  # the survey is complete; a lost stage is closed anyway
            bench.stage.stop()


def _walk(
    config: Config, walk: SurveyWalk, repeat: int, console: Console, signals: StopSignals
) -> None:
    """Walk the rail there and back; a line per walk, as a log has no bar."""
    positions = config.survey_positions
    shown = console.is_terminal
    begun_s = time.monotonic()
    with survey_progress(len(positions), walks=repeat, shown=shown, console=console) as progress:
        for number in range(1, repeat + 1):
            before = (number - 1) * len(positions)
            survey = walk.run(
                positions if number % 2 else positions[::-1],
                on_progress=lambda done, before=before: progress(before + done),  # type: ignore[misc]
            )
            if signals.stop.is_set:
                return
            if number < repeat:
                left_s = (time.monotonic() - begun_s) / number * (repeat - number)
                found = f"{len(survey.reward)} of {len(positions)} positions"
                print_plain(console, f"walk {number} of {repeat}: {found}; {left_s:.0f} s left")


def _drawing() -> Draw:
    with plotting():
        from macontrol.sim.research.plots.rail import draw_survey
    return draw_survey


def _table(path: Path, config: Config, walks: Sequence[Survey]) -> Table:
    survey = walks[-1]
    best, best_mm = survey.best_position, config.physical.to_mm(survey.best_position)
    reward, wanted = survey.reward, len(config.survey_positions)
    table = Table(title=f"survey in {path}", show_header=False)
    if len(walks) > 1:
        begun_s = walks[0].samples[0].unix_s
        lasted_s = max(abs(sample.unix_s - begun_s) for sample in survey.samples)
        table.add_row("walks", f"{len(walks)} in {lasted_s:.1f} s; below, the last one")
    table.add_row("positions measured", f"{len(reward)} of {wanted}")
    table.add_row("best position", f"{best:.3f} wavelengths, {best_mm:.1f} mm")
    table.add_row("reward there", f"{reward.max():.3f}")
    table.add_row("on average", f"{reward.mean():.3f}, at worst {reward.min():.3f}")
    table.add_row("sigma_f", f"{survey.sigma_f2(config) ** 0.5:.3f}")
    return table
