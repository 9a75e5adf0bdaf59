"""Move the antenna of a bench by hand, before a run, and show what the probe measures, live.

For aligning antennas and setting the gain: position, level, SNR, noise floor, clipped share and
reward are on one line, several times per second on a terminal, once per second in a pipe. Every
motion goes through the guard, stroke by stroke, and stays on the region of the config. A real
stage is homed first, with --yes or after you agree. `--backend sim` has a simulated bench to try.

On a terminal, and as lines on standard input:

  left, right     move by the step, at first a stroke
  up, down        double or halve the step
  +0.5, -2mm      move by a distance in wavelengths, or millimetres (Enter)
  3.5, 25mm       go to a position, as `macontrol goto` does (Enter)
  f               measure the noise floor; switch the transmitter off before, unless `[tx]` does
  q               end; so does the end of the input

Ctrl-C stops the stage and ends. The noise floor is unknown at first, and with it the SNR, if the
config has none (probe.noise_floor) and no command switches the transmitter.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import TypeAlias

from rich.console import Console

from macontrol.alignment import Alignment, on_rail
from macontrol.commands.opened_bench import open_bench
from macontrol.commands.operate import parse_position
from macontrol.commands.shared_arguments import (
    add_hand_arguments,
    bench_config_from,
)
from macontrol.config import Config
from macontrol.config.model.errors import HardwareError, StageError, UsageError
from macontrol.config.model.suggestion import shortened
from macontrol.controller.runtime.clock import WallClock
from macontrol.display.one_line import OneLine
from macontrol.display.typed import TypedCommands
from macontrol.recorders import FaultReporter
from macontrol.stop_signals import ForcedStop, StopSignals

Work: TypeAlias = Callable[[], None]
_KEYS = "arrows move by the step; +0.5, -2mm, 3.5 or 25mm and Enter; f; q ends"
_SMALLEST_STEPS = 12
"""How often the step can be halved."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_hand_arguments(parser, required=True)


def main(arguments: argparse.Namespace) -> int:
    with HandBench(arguments) as hand:
        hand.run(Jog(hand).loop)
    return hand.exit_code


class HandBench:
    """A bench that a person moves, from `__enter__` to `__exit__`."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.config: Config = bench_config_from(arguments)
        self.line = OneLine()
        self.signals = StopSignals()
        self._arguments = arguments
        self._closing = ExitStack()
        self.alignment: Alignment

    def __enter__(self) -> HandBench:
        return self

    def __exit__(self, *_: object) -> None:
        self.line.end()

    def run(self, work: Work) -> None:
        """Open the bench, work, and stop the stage; an error after a stop request is the stop."""
        clock, stop = WallClock(), self.signals.stop
        try:
            with ExitStack() as closing:
                closing.enter_context(self.signals)
                bench = open_bench(
                    self.config,
                    clock,
                    closing,
                    Console(),
                    self.signals,
                    self._arguments,
                    note=self.line.note,
                    needs_signal=False,
                )
                reporter = FaultReporter(self.line.note)
                self.alignment = Alignment(self.config, bench, clock, stop, reporter)
                try:
                    work()
                finally:
                    with suppress(StageError):  # closing the stage reports it
                        self.alignment.halt()
        except ForcedStop:
            pass
        except HardwareError:
            if not self.signals.first:
                raise

    @property
    def exit_code(self) -> int:
        return 128 + self.signals.first if self.signals.first else 0


class Jog:
    """Executes what is typed, and shows a reading in between."""

    def __init__(self, hand: HandBench) -> None:
        self._hand = hand
        physical = hand.config.physical
        self._step = physical.rho_max
        self._limits = physical.rho_max / 2**_SMALLEST_STEPS, physical.region_length
        self._goal: float | None = None

    def loop(self) -> None:
        """Until the end of the input, `q`, or a stop."""
        hand, stop = self._hand, self._hand.signals.stop
        alignment = hand.alignment
        with TypedCommands() as typed:
            if hand.line.is_terminal:
                hand.line.note(_KEYS)
            while not stop.is_set:
                command = typed.next()
                if command is not None and not self._execute(command):
                    break
                if self._goal is not None:
                    arrived = alignment.go_to(
                        self._goal,
                        may_move=lambda: not (typed.is_terminal and typed.is_waiting),
                        show=lambda reading: hand.line.show(self._text(reading, typed)),
                    )
                    self._goal = None if arrived else self._goal
                hand.line.show(self._text(alignment.read(), typed))
        hand.line.show(str(alignment.read()), is_last=True)

    def _text(self, reading: object, typed: TypedCommands) -> str:
        if not typed.is_terminal:
            return str(reading)
        return f"{reading}   step {self._step:.3g} λ   {typed.unfinished}"

    def _execute(self, command: str) -> bool:
        """Execute a command; False for the end. An error is shown, and changes nothing."""
        alignment, here = self._hand.alignment, self._goal
        if command in ("q", "quit"):
            return False
        if command in ("up", "down"):
            least, most = self._limits
            factor = 2.0 if command == "up" else 0.5
            self._step = min(max(self._step * factor, least), most)
            return True
        if command in ("f", "floor"):
            self._hand.line.note(alignment.measure_floor())
            return True
        try:
            begin = alignment.position if here is None else here
            if command in ("left", "right"):
                step = self._step if command == "right" else -self._step
                self._goal = alignment.clamp(begin + step)
            elif command:
                config = self._hand.config
                self._goal = on_rail(config, _target(command, begin, config))
        except (UsageError, StageError) as error:
            self._hand.line.note(str(error))
        return True


def _target(text: str, position: float, config: Config) -> float:
    """Where a typed distance or position leads (wavelengths); UsageError if it is neither."""
    try:
        given = parse_position(text)
    except UsageError:
        fix = "arrows, +0.5, -2mm, 3.5, 25mm, f for the noise floor, q to end"
        raise UsageError(f"{shortened(text)} is no command", fix) from None
    value = given.get("position")
    if value is None:
        value = config.physical.to_wavelengths(given["position_mm"])
    value = float(value)
    return position + value if text[0] in "+-" else value


def bench_of(arguments: argparse.Namespace) -> str:
    """What a daemon of the bench of these options is called."""
    return "sim" if arguments.backend == "sim" else bench_config_from(arguments).stage.port_path


def go_to(
    arguments: argparse.Namespace,
    *,
    position: float | None = None,
    position_mm: float | None = None,
) -> int:
    """Bring the antenna of a bench that no daemon has to a position; print what is there."""
    with HandBench(arguments) as hand:
        wanted = hand.config.physical.to_wavelengths(position_mm or 0.0)
        goal = on_rail(hand.config, wanted if position is None else position)

        def go() -> None:
            hand.alignment.go_to(goal, show=lambda reading: hand.line.show(str(reading)))
            hand.line.show(str(hand.alignment.read()), is_last=True)

        hand.run(go)
    return hand.exit_code
