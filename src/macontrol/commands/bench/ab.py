"""Compare policies on one bench: they alternate in blocks, in a new random order in each round.

The bench is opened, homed and surveyed once. Then every round has one block of each policy, so that
a drift of the channel or the radio affects all of them. The result is the mean reward of each
policy and its difference from the first one, with a 95 % confidence interval over the rounds
(Student's t): correlation within a block does not matter. A policy that is given twice, as in
fixed,fixed, should show no difference.

Each block starts with a new policy, at its start position, with sigma_f of the survey and without
samples. Its first w slots (algorithm.window) do not count, but at most half of the block. Each
block has a run file of its own in one folder, and the result is there in trial.json. After a stop
or a fault, the complete rounds count.

While it runs, `macontrol status` shows the block, and `macontrol stop` ends the trial. What would
steer a policy (hold, goto, set, resurvey, noise-floor) is refused.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from macontrol.commands.shared_arguments import (
    BY_BACKEND,
    add_bench_arguments,
    add_config_arguments,
    bench_config_from,
    named,
    positive_int,
    positive_number,
    seed_number,
)
from macontrol.config import Config, load_config
from macontrol.config.model.errors import (
    InputOutputError,
    MacontrolError,
    ProbeError,
    StageError,
    UsageError,
    reason_of,
)
from macontrol.config.policies import POLICIES
from macontrol.standard_streams import is_terminal, print_error, print_plain

if TYPE_CHECKING:
    from macontrol.hal import Backend, Clock
    from macontrol.stop_signals import StopSignals
    from macontrol.trial.plan import Plan

SUMMARY = "policies that alternate on one bench, with confidence intervals"

ROUNDS = 10
_MOST_ROUNDS = 999
_FEWEST_SLOTS = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--policies",
        type=_policies,
        required=True,
        metavar="A,B,…",
        help="two or more policies; the others are compared with the first",
    )
    parser.add_argument(
        "--block",
        type=_seconds,
        default=60.0,
        metavar="S",
        help="length of a block in seconds, as in 60 or 60s (default 60)",
    )
    length = parser.add_mutually_exclusive_group()
    length.add_argument(
        "--blocks", type=positive_int, metavar="N", help=f"blocks per policy (default {ROUNDS})"
    )
    length.add_argument(
        "--duration", type=_seconds, metavar="S", help="as many whole rounds as this time has"
    )
    parser.add_argument(
        "--backend",
        choices=("sim", "serial"),
        required=True,
        help="the simulated bench, or a stage and a radio",
    )
    parser.add_argument(
        "--seed",
        type=seed_number,
        metavar="N",
        help="seed of the order, and of the simulated world (default: run.seed)",
    )
    parser.add_argument(
        "--fast", action="store_true", help="use a virtual clock: run as fast as possible"
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help="a new or empty folder for the run files (default: one in the state folder; none with "
        "--fast)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    add_bench_arguments(parser)
    add_config_arguments(parser, preset=BY_BACKEND)


def main(arguments: argparse.Namespace) -> int:
    if arguments.fast and arguments.backend == "serial":
        raise UsageError("--fast needs --backend sim")
    config = bench_config_from(arguments)
    configs = [
        load_config(assignments=[f"algorithm.policy={json.dumps(name)}"], base=config)
        for name in arguments.policies
    ]
    plan = _plan(config, arguments)
    folder = _folder(arguments)
    # With JSON on standard output, progress goes to standard error.
    console = Console(stderr=arguments.json)
    return _Command(arguments, plan, configs, folder, console).run()


class _Command:
    """One trial, from the bench to the result."""

    def __init__(
        self,
        arguments: argparse.Namespace,
        plan: Plan,
        configs: list[Config],
        folder: Path | None,
        console: Console,
    ) -> None:
        from macontrol.trial.blocks import Trial  # loads slowly

        self._arguments = arguments
        self._plan = plan
        self._configs = configs
        self._folder = folder
        self._console = console
        self._trial: Trial | None = None

    def run(self) -> int:
        """Run the trial and show its result; a failure is raised after that."""
        from macontrol.stop_signals import ForcedStop, StopSignals

        signals = StopSignals()
        failure: MacontrolError | None = None
        try:
            with ExitStack() as closing:
                closing.enter_context(signals)
                self._drive(signals, closing)
        except ForcedStop:
            pass
        except (StageError, ProbeError) as error:
            failure = None if signals.stop.is_set and self._trial is None else error
        except MacontrolError as error:
            failure = error
        if self._trial is not None and self._trial.results:
            self._show(None if failure is None else str(failure))
        if failure is not None:
            raise failure
        return 128 + signals.first if signals.first else 0

    def _drive(self, signals: StopSignals, closing: ExitStack) -> None:
        from macontrol.controller.host.instance import InstanceLock
        from macontrol.controller.recording.records import Recorders
        from macontrol.controller.runtime.clock import VirtualClock, WallClock
        from macontrol.recorders import LockFollower
        from macontrol.starting_point import StartingPoint
        from macontrol.trial.blocks import Place, Trial
        from macontrol.trial.control import TrialControl

        arguments, config = self._arguments, self._configs[0]
        serial, fast = arguments.backend == "serial", arguments.fast
        name = config.stage.port_path if serial else "sim"
        clock: Clock = WallClock()
        if fast:
            clock = VirtualClock(on_wait=self._throttle)
        records = Recorders()
        if not fast:
            lock = closing.enter_context(InstanceLock(name))
            records.add(closing.enter_context(LockFollower(lock.follow)))
        control = TrialControl(config, self._options(name), clock, signals.stop, records)
        if not fast:
            control.start(self._note, closing)
        bench = control.live.bench = self._open(name, clock, signals, closing)
        start = StartingPoint(
            self._config_of_survey(),
            self._options(name),
            clock,
            signals.stop,
            note=self._note,
            live=control.live,
        )
        is_shown = self._console.is_terminal and not arguments.json
        survey = start.survey(bench, show_progress=is_shown)
        if survey is None:
            self._note("stopped before the survey was complete")
            return
        self._trial = Trial(
            self._plan,
            self._configs,
            bench,
            survey,
            clock,
            Place(arguments.backend, name, self._folder, is_virtual=fast),
            stop=signals.stop,
            also=records,
            note=self._note,
            on_hang=partial(self._show, "a policy does not return"),
            control=control,
        )
        self._trial.run()

    def _throttle(self) -> None:
        if self._trial is not None:
            self._trial.throttle()

    def _config_of_survey(self) -> Config:
        """The config of a policy that needs the survey's samples to be fresh, if there is one."""
        from macontrol.controller.policies.registry import POLICIES

        def needs_samples(config: Config) -> bool:
            return POLICIES[config.algorithm.policy].starts_from_samples

        return next(filter(needs_samples, self._configs), self._configs[0])

    def _options(self, name: str) -> Any:
        from macontrol.run_options import RunOptions

        arguments = self._arguments
        return RunOptions(
            name=name,
            slots=None,
            duration_s=None,
            fast=arguments.fast,
            run_file=None,
            regret=False,
            faults=None,
            backend=arguments.backend,
            yes=arguments.yes,
            traffic=arguments.traffic,
        )

    def _open(self, name: str, clock: Clock, signals: StopSignals, closing: ExitStack) -> Backend:
        """The bench, ready to run; `closing` closes it."""
        arguments, config = self._arguments, self._configs[0]
        if arguments.backend == "sim":
            from macontrol.simulated_run import SimulatedRun  # hardware imports no `sim`

            return SimulatedRun(config, self._options(name)).open(clock, None, closing)
        from macontrol.commands.opened_bench import open_bench

        return open_bench(
            config,
            clock,
            closing,
            self._console,
            signals,
            arguments,
            note=self._note,
            is_locked=True,
        )

    def _note(self, text: str) -> None:
        print_plain(self._console, text)

    def _show(self, failure: str | None) -> None:
        """Print the result, and write it beside the run files."""
        from macontrol.trial.outcome import outcome_of
        from macontrol.trial.presentation import as_json, print_tables

        assert self._trial is not None
        outcome = outcome_of(self._plan, self._trial.results)
        found = as_json(outcome, self._configs[0], failure)
        if self._folder is not None:
            path = self._folder / "trial.json"
            try:
                path.write_text(json.dumps(found, indent=2) + "\n", "utf-8")
            except OSError as error:
                print_error(f"macontrol: {path} cannot be written: {reason_of(error)}")
        if self._arguments.json:
            print(json.dumps(found, indent=2), flush=True)
            return
        width = None if is_terminal(sys.stdout) else 120
        print_tables(Console(width=width), outcome, self._configs[0])
        if self._folder is not None:
            self._note(f"run files: macontrol runs {self._folder}")


def _plan(config: Config, arguments: argparse.Namespace) -> Plan:
    from macontrol.trial.plan import Plan

    slot_s, window = config.physical.slot_duration_s, config.algorithm.window
    slots = round(arguments.block / slot_s)
    if slots < _FEWEST_SLOTS:
        raise UsageError(
            f"--block {arguments.block:g} s is {slots} slots",
            f"give at least {_FEWEST_SLOTS * slot_s:g} s ({_FEWEST_SLOTS} slots)",
        )
    rounds = arguments.blocks or ROUNDS
    if arguments.duration is not None:
        rounds = int(arguments.duration / (len(arguments.policies) * slots * slot_s) + 1e-9)
        if rounds < 1:
            raise UsageError(
                f"--duration {arguments.duration:g} is shorter than one round",
                f"give at least {len(arguments.policies) * slots * slot_s:g} s",
            )
    if rounds > _MOST_ROUNDS:
        raise UsageError(f"{rounds} rounds", f"at most {_MOST_ROUNDS} are possible")
    return Plan.random(
        arguments.policies,
        rounds,
        seed=config.run.seed,
        slots=slots,
        settling=min(window, slots // 2),
    )


def _folder(arguments: argparse.Namespace) -> Path | None:
    """The folder of the run files, which exists then; None if there are none."""
    from macontrol.controller.recording.runfile import default_run_folder

    folder: Path | None = arguments.out
    if folder is None:
        if arguments.fast:
            return None
        started = datetime.fromtimestamp(time.time(), UTC)
        folder = default_run_folder() / f"ab-{started:%Y%m%dT%H%M%SZ}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        is_empty = not any(folder.iterdir())
    except OSError as error:
        raise InputOutputError(
            f"{folder}: the run files cannot be kept there: {reason_of(error)}",
            "choose a folder that can be written to",
        ) from error
    if not is_empty:
        raise InputOutputError(f"{folder}: the folder is not empty", "choose a new folder")
    return folder


def _policies(text: str) -> list[str]:
    names = [named(POLICIES)(name.strip()) for name in text.split(",")]
    if len(names) < 2:
        raise argparse.ArgumentTypeError("a comparison needs two policies, as in moveucb,fixed")
    return names


def _seconds(text: str) -> float:
    return positive_number(text.removesuffix("s"))
