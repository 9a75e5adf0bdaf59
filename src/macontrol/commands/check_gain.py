"""`macontrol check --gain`: the wiring of the sweep of the gain."""

from __future__ import annotations

import argparse
from contextlib import ExitStack, suppress

from rich.console import Console

from macontrol.alignment import Alignment
from macontrol.commands.opened_bench import open_bench
from macontrol.config import Config
from macontrol.config.model.errors import HardwareError, StageError
from macontrol.controller.runtime.clock import WallClock
from macontrol.doctor.gain import POSITIONS, GainSweep, gains_of
from macontrol.doctor.report import Report
from macontrol.hal.capabilities import HasGain
from macontrol.hal.registry import PROBES
from macontrol.recorders import FaultReporter
from macontrol.stop_signals import ForcedStop, StopSignals


def sweep_gain(
    config: Config, arguments: argparse.Namespace, console: Console, report: Report
) -> int:
    """Open the bench, walk the rail, sweep the gain; the exit code."""
    clock, signals = WallClock(), StopSignals()
    # Before anything moves: this driver cannot change a gain, whatever is connected.
    if not isinstance(PROBES[config.probe.driver].make(config.probe, clock), HasGain):
        return _no_gain(config, report)

    def note(text: str) -> None:
        console.print(text, soft_wrap=True, highlight=False, markup=False)

    try:
        with ExitStack() as closing:
            closing.enter_context(signals)
            bench = open_bench(
                config, clock, closing, console, signals, arguments, needs_signal=False
            )
            probe, stop = bench.probe, signals.stop
            if not (isinstance(probe, HasGain) and gains_of(probe)):
                return _no_gain(config, report)
            alignment = Alignment(config, bench, clock, stop, FaultReporter(note))
            sweep = GainSweep(config, alignment, probe, clock, stop.keep_on, note)
            note(
                f"the antenna goes to {POSITIONS} positions of the rail, and the gain is changed "
                f"at the strongest one; this takes about {sweep.duration_s:.0f} s, and the "
                "transmitter must be on"
            )
            try:
                sweep.run(report)
            finally:
                with suppress(StageError):  # closing the stage reports it
                    alignment.halt()
    except ForcedStop:
        pass
    except HardwareError:
        if not signals.first:
            raise
    if signals.first:
        return 128 + signals.first
    return HardwareError.exit_code if report.failures else 0


def _no_gain(config: Config, report: Report) -> int:
    report.failed(
        "gain", f"the probe {config.probe.driver} has no gain that can be set", "leave out --gain"
    )
    return HardwareError.exit_code
