"""Run the controller on a bench, slot by slot, until it is stopped."""

from __future__ import annotations

import argparse
from pathlib import Path

from macontrol.commands.shared_arguments import (
    BY_BACKEND,
    add_bench_arguments,
    add_config_arguments,
    bench_loaded_from,
    positive_int,
    positive_number,
    seed_number,
)
from macontrol.config.files.atomic_file import regular_target
from macontrol.config.model.errors import UsageError
from macontrol.config.model.suggestion import shortened
from macontrol.run_options import LOG_FORMATS, RunOptions
from macontrol.slot_choice import SlotChoice

_LONGEST_NAME = 60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--backend",
        choices=("sim", "serial"),
        required=True,
        help="run on a simulated bench, or on a stage and a probe",
    )
    add_bench_arguments(parser)
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--slots", type=positive_int, metavar="N", help="run this many slots")
    length.add_argument(
        "--duration", type=positive_number, metavar="S", help="run for this many seconds"
    )
    parser.add_argument(
        "--seed",
        type=seed_number,
        metavar="N",
        help="seed of the simulated world and of a random policy (default: run.seed)",
    )
    parser.add_argument(
        "--fast", action="store_true", help="use a virtual clock: run as fast as possible"
    )
    parser.add_argument(
        "--run",
        type=Path,
        metavar="FILE",
        help="the run file to write (default: one in the state folder; none with --fast)",
    )
    start = parser.add_mutually_exclusive_group()
    start.add_argument(
        "--resume",
        action="store_true",
        help="continue the last run of this bench, if its window is still fresh",
    )
    start.add_argument(
        "--cold", action="store_true", help="survey the rail even if there is a recent survey"
    )
    parser.add_argument(
        "--name",
        type=_bench_name,
        metavar="NAME",
        help="name of the bench, used for its run files and to allow one controller per simulated "
        "bench (default: sim, or the port)",
    )
    parser.add_argument(
        "--regret",
        action="store_true",
        help="at the end, compare the run with the oracle",
    )
    parser.add_argument(
        "--faults",
        metavar="SEED[:RATE]",
        type=_fault_plan,
        help="make the bench fail at random, at this rate per slot (default 0.001; sim)",
    )
    parser.add_argument(
        "--record-iq",
        type=_slots,
        metavar="SLOTS",
        help="write the IQ samples of these slots beside the run file as SigMF, as in 100,200-210 "
        "(a radio)",
    )
    parser.add_argument(
        "--log",
        choices=LOG_FORMATS,
        default="auto",
        help="format of events (default: a live view on a terminal, JSON lines for journald, "
        "text elsewhere)",
    )
    add_config_arguments(parser, policy=True, preset=BY_BACKEND)


def main(arguments: argparse.Namespace) -> int:
    from macontrol.controller.recording.runfile.lock import NOT_THERE  # `--help` needs no NumPy

    serial = arguments.backend == "serial"
    _refuse_conflicts(arguments, serial=serial)
    loaded = bench_loaded_from(arguments)
    config = loaded.config
    name = arguments.name or (config.stage.port_path if serial else "sim")
    if arguments.regret and arguments.slots is None and arguments.duration is None:
        raise UsageError("--regret needs a run that ends", "give --slots or --duration")
    options = RunOptions(
        backend=arguments.backend,
        name=name,
        yes=arguments.yes,
        traffic=arguments.traffic,
        slots=arguments.slots,
        duration_s=arguments.duration,
        fast=arguments.fast,
        run_file=arguments.run and regular_target(arguments.run, NOT_THERE),
        resume=arguments.resume,
        cold=arguments.cold,
        regret=arguments.regret,
        faults=arguments.faults,
        log=arguments.log,
        record_iq=arguments.record_iq,
        origins=loaded.origins,
    )
    from macontrol.daemon import Daemon  # only here: `--help` and `--version` do without

    return Daemon(config, options).run()


def _refuse_conflicts(arguments: argparse.Namespace, *, serial: bool) -> None:
    """Refuse options that exclude each other or the backend."""
    traffic, run = arguments.traffic, arguments.run
    if traffic is not None and run is not None and traffic.resolve() == run.resolve():
        raise UsageError("--traffic and --run name the same file", "give each its own")
    for option in ("fast", "regret"):
        if arguments.resume and getattr(arguments, option):
            raise UsageError("--resume continues a run in real time", f"remove --{option}")
    for option in ("fast", "regret", "faults"):
        if serial and getattr(arguments, option):
            raise UsageError(f"--{option} needs --backend sim")
    if arguments.record_iq is not None and not serial:
        raise UsageError("--record-iq: the simulated bench has no samples", "use --backend serial")


def _slots(text: str) -> SlotChoice:
    try:
        return SlotChoice.parse(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{shortened(text)} is not a list of slots, as in 100,200-210"
        ) from None


def _fault_plan(text: str) -> tuple[int, float]:
    from macontrol.sim.bench.faults import DEFAULT_FAULT_RATE  # a hardware run imports no sim

    seed, _, rate = text.partition(":")
    try:
        plan = int(seed), float(rate or DEFAULT_FAULT_RATE)
    except ValueError:
        plan = -1, 0.0
    if plan[0] < 0 or not 0 <= plan[1] <= 1:
        raise argparse.ArgumentTypeError(
            f"{shortened(text)} is not a seed with a rate, as in 7:0.001"
        )
    return plan


def _bench_name(text: str) -> str:
    if not (0 < len(text) <= _LONGEST_NAME and text.isprintable()):
        raise argparse.ArgumentTypeError(
            f"{shortened(text)} is not a name of 1 to {_LONGEST_NAME} printable characters"
        )
    return text
