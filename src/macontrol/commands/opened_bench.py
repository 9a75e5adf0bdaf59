"""Open a bench for a command that is no run: with consent to home, a lock and a traffic log."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from rich.console import Console

from macontrol.config import Config
from macontrol.config.files.free_space import FreeSpace
from macontrol.controller.host.instance import InstanceLock
from macontrol.hal import Backend, Clock
from macontrol.hal.serial.traffic_log import TrafficFile
from macontrol.serial_bench import SerialBench, may_home, require_consent
from macontrol.standard_streams import print_plain
from macontrol.stop_signals import StopSignals


def open_bench(
    config: Config,
    clock: Clock,
    closing: ExitStack,
    console: Console,
    signals: StopSignals,
    arguments: argparse.Namespace,
    *,
    note: Callable[[str], None] | None = None,
    needs_signal: bool = True,
    is_locked: bool = False,
) -> Backend:
    """The bench that the options describe; `closing` closes it. A real stage is homed.

    `note` gets what happens, if not the console. `is_locked`: the caller has locked the stage.
    """
    if arguments.backend == "sim":
        from macontrol.sim.bench.simulated import SimulatedBench  # hardware imports no `sim`

        return SimulatedBench(config, clock, seed=config.run.seed)
    note = note or partial(print_plain, console)
    at_terminal = sys.stdin.isatty() and console.is_terminal
    require_consent(config, yes=arguments.yes, at_terminal=at_terminal)
    if not is_locked:
        closing.enter_context(InstanceLock(config.stage.port_path))
    log = None
    if arguments.traffic is not None:
        room = FreeSpace(arguments.traffic, config.run.free_space_floor_mb)
        log = TrafficFile(arguments.traffic, clock, on_problem=note, room=room)
        closing.callback(_note_lost, log, note)
        closing.enter_context(log)
    bench = SerialBench(
        config,
        clock,
        confirm_homing=lambda: may_home(
            yes=arguments.yes, at_terminal=at_terminal, stop=signals.stop
        ),
        report=note,
        log=log,
        stop=signals.stop,
        needs_signal=needs_signal,
    )
    bench.open(closing)
    return bench


def _note_lost(log: TrafficFile, note: Callable[[str], None]) -> None:
    if log.lost:
        note(f"{log.lost} entries of the traffic log are lost")
