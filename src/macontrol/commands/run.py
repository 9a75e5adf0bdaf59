"""Run the controller on a bench, slot by slot, until told to stop."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from macontrol.commands.shared_arguments import (
    add_config_arguments,
    config_from,
    positive_int,
    positive_number,
    seed_number,
)
from macontrol.config.errors import UsageError
from macontrol.config.probe_settings import parse_probe_option
from macontrol.daemon import Daemon, RunOptions
from macontrol.sim.faults import DEFAULT_FAULT_RATE

SUMMARY = "run the controller (also with no command at all)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--backend",
        choices=("sim", "serial"),
        required=True,
        help="what stands behind the controller: a simulated bench, or a stage and a radio",
    )
    bench = parser.add_argument_group("serial bench")
    bench.add_argument("--stage", choices=("grbl", "zaber"), help="default: the config's, GRBL")
    bench.add_argument("--port", metavar="PORT", help="the stage's port, as in /dev/ttyUSB0")
    bench.add_argument(
        "--probe", metavar="RADIO", help="rtl_tcp://HOST:PORT (default: the config's)"
    )
    bench.add_argument(
        "--yes", action="store_true", help="home the stage without asking: the rail is clear"
    )
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--slots", type=positive_int, metavar="N", help="run so many slots")
    length.add_argument(
        "--duration", type=positive_number, metavar="S", help="run for so many seconds"
    )
    parser.add_argument("--seed", type=seed_number, metavar="N", help="which world to simulate")
    parser.add_argument(
        "--fast", action="store_true", help="on a virtual clock, as quickly as it computes"
    )
    parser.add_argument(
        "--run",
        type=Path,
        metavar="FILE",
        help="the run file (default: one in the state folder; none with --fast)",
    )
    parser.add_argument(
        "--cold", action="store_true", help="survey anew even if an earlier run is fresh"
    )
    parser.add_argument(
        "--name", metavar="NAME", help="of a simulated bench: one controller each (sim)"
    )
    parser.add_argument(
        "--regret",
        action="store_true",
        help="at the end, hold the run against the oracle (it surveys anew)",
    )
    parser.add_argument(
        "--faults",
        metavar="SEED[:RATE]",
        type=_fault_plan,
        help="make the bench fail at random, at this rate a slot (default 0.001)",
    )
    add_config_arguments(parser, policy=True)


def main(arguments: argparse.Namespace) -> int:
    serial = arguments.backend == "serial"
    _refuse_what_does_not_fit(arguments, serial=serial)
    chosen = {} if arguments.seed is None else {"run.seed": str(arguments.seed)}
    if arguments.port is not None:
        chosen["stage.port"] = f'"{arguments.port}"'
    if arguments.stage is not None:
        chosen["stage.driver"] = f'"{arguments.stage}"'
    if arguments.probe is not None:
        radio = parse_probe_option(arguments.probe)
        chosen |= {f"probe.{key}": f'"{value}"' for key, value in radio.items()}
    config = config_from(arguments, *(f"{key}={value}" for key, value in chosen.items()))
    name = os.path.realpath(config.stage.port) if serial else arguments.name or "sim"
    if arguments.regret and arguments.slots is None and arguments.duration is None:
        raise UsageError("--regret needs an end to the run: give --slots or --duration")
    options = RunOptions(
        backend=arguments.backend,
        name=name,
        yes=arguments.yes,
        slots=arguments.slots,
        duration_s=arguments.duration,
        fast=arguments.fast,
        run_file=arguments.run,
        cold=arguments.cold,
        regret=arguments.regret,
        faults=arguments.faults,
    )
    return Daemon(config, options).run()


def _refuse_what_does_not_fit(arguments: argparse.Namespace, *, serial: bool) -> None:
    """Options that say nothing of the chosen backend are mistakes."""
    for_serial = ("stage", "port", "probe", "yes")
    for_sim = ("fast", "regret", "faults", "name")
    for option in for_sim if serial else for_serial:
        if getattr(arguments, option):
            other = "sim" if serial else "serial"
            raise UsageError(f"--{option} goes with --backend {other}")


def _fault_plan(text: str) -> tuple[int, float]:
    seed, _, rate = text.partition(":")
    try:
        plan = int(seed), float(rate or DEFAULT_FAULT_RATE)
    except ValueError:
        plan = -1, 0.0
    if plan[0] < 0 or not 0 <= plan[1] <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a seed with a rate, as in 7:0.001")
    return plan
