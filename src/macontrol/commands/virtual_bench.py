"""Emulate a bench: a stage on a pseudo-terminal and a radio on loopback.

With --probe, the probe of another driver takes the place of the radio: a detector on another
pseudo-terminal, or an instrument on loopback.

With --reference PORT, a second radio is fixed in the middle of the rail, as `[reference]` can name
it.

Both belong to one simulated world: the radio receives the channel at the true position of the
emulated carriage, with the noise of `--backend sim` with the same seed. `macontrol --backend
serial` uses it like a real bench.

The channel does not change during the survey, and drifts after --still seconds. With --notify it
drifts from slot 1 of a controller that has this socket as its NOTIFY_SOCKET, as from a service
manager: then a run gets the world of `--backend sim`, slot by slot.

When a controller starts, the transmitter is off until the noise floor is measured.

Lines on standard input cause faults: unplug, plug, reset, alarm, hang, garbage, lose MM, slow S,
stick, release of the stage (not every stage supports all of them); stall S, drop, clip S of the
probe; mute, unmute, detune HZ of the transmitter. Two more commands are drift and quit. A file
given with --faults schedules them as lines "SECONDS COMMAND", as in "30 unplug".
"""

from __future__ import annotations

import argparse
import os
import select
import shlex
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from errno import EADDRINUSE
from pathlib import Path
from typing import Any

from macontrol.commands.shared_arguments import (
    add_config_arguments,
    add_stage_argument,
    choose_lab_preset,
    config_from,
    config_words,
    lab_preset,
    named,
    parse_probe_option,
    positive_number,
    seed_number,
)
from macontrol.config import Config, load_config
from macontrol.config.files.input_file import CONFIG_LIMIT, read_input
from macontrol.config.model.address import split_address
from macontrol.config.model.errors import DataError, HardwareError, InputOutputError, UsageError
from macontrol.config.model.registry import is_reference
from macontrol.config.model.suggestion import shortened
from macontrol.controller.host.instance import InstanceLock
from macontrol.controller.runtime.clock import WallClock
from macontrol.hal.registry import PROBES, STAGES, ProbeDriver
from macontrol.hal.serial.framing import LineBuffer
from macontrol.sim.bench.virtual import FAULTS, VirtualBench, emulated_driver, parse_command
from macontrol.stop_signals import ForcedStop, StopSignals

_POLL_INTERVAL_S = 0.1
_STILL_S = 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_stage_argument(parser)
    parser.add_argument("--link", type=Path, metavar="PATH", help="a name for the stage's port")
    parser.add_argument(
        "--probe",
        type=named(PROBES),
        metavar="NAME",
        help=f"the probe: {', '.join(_emulated_probes())} (default: the config's)",
    )
    parser.add_argument("--probe-link", type=Path, metavar="PATH", help="a name for its port")
    radio = PROBES[load_config().probe.driver]
    parser.add_argument(
        "--radio",
        _radio_option(radio),
        dest="radio",
        metavar="HOST:PORT",
        help=f"address of the radio (127.0.0.1:{radio.server_port}); port 0: any free port",
    )
    parser.add_argument(
        "--reference",
        type=_port,
        metavar="PORT",
        help="also emulate a reference receiver, fixed in the middle of the rail, on this port of "
        "the radio's host; port 0: any free port",
    )
    parser.add_argument("--seed", type=seed_number, metavar="N", help="seed of the simulated world")
    parser.add_argument("--scenario", choices=("blocked", "dense"), help="default: blocked")
    begin = parser.add_mutually_exclusive_group()
    begin.add_argument(
        "--still", type=positive_number, metavar="S", help=f"start of the drift ({_STILL_S:.0f})"
    )
    begin.add_argument(
        "--notify", type=Path, metavar="PATH", help="a socket: drift when the controller is ready"
    )
    parser.add_argument("--faults", type=Path, metavar="FILE", help="a schedule of faults")
    parser.add_argument("--duration", type=positive_number, metavar="S", help="end after this time")
    add_config_arguments(parser, preset="the stage's")


def main(arguments: argparse.Namespace) -> int:
    is_chosen = choose_lab_preset(arguments)
    chosen = {"channel.scenario": arguments.scenario, "probe.driver": arguments.probe}
    if is_chosen:  # a stage without a preset of its own may name one that is not about it
        chosen["stage.driver"] = arguments.stage
    config = config_from(arguments, *(f"{k}={v}" for k, v in chosen.items() if v is not None))
    if arguments.stage and STAGES[arguments.stage] is not STAGES[config.stage.driver]:
        raise UsageError(
            f"--stage {arguments.stage}: the config has stage.driver = {config.stage.driver!r}",
            f"remove --stage, or start from --preset {lab_preset(arguments.stage)}",
        )
    if not STAGES[config.stage.driver].emulator:
        names = " or ".join(each.name for each in STAGES.working() if each.emulator)
        raise UsageError(
            f"the stage {config.stage.driver} has no emulator", f"give --stage {names}"
        )
    if is_chosen and is_reference(arguments.stage):
        arguments.preset = None  # another process finds it by --stage only
    driver = PROBES[emulated_driver(config)]
    _refuse_other_options(arguments, driver)
    try:
        address = arguments.radio or f"127.0.0.1:{driver.server_port}"
        host, port = _listening_address(address) if driver.server_port else ("", 0)
    except ValueError as error:
        raise UsageError(f"{_radio_option(driver)} {error}") from None
    schedule = _read_schedule(arguments.faults) if arguments.faults else []
    if arguments.notify is None:
        schedule.append((arguments.still or _STILL_S, "drift"))
    if arguments.duration is not None:
        schedule.append((arguments.duration, "quit"))
    clock, signals = WallClock(), StopSignals()
    try:
        with ExitStack() as closing:
            _reserve("--link", arguments.link, closing)
            _reserve("--probe-link", arguments.probe_link, closing)
            try:
                bench = VirtualBench(
                    config,
                    clock,
                    seed=config.run.seed,
                    link=arguments.link,
                    host=host,
                    port=port,
                    probe_link=arguments.probe_link and arguments.probe_link.absolute(),
                    reference_port=arguments.reference,
                )
            except OSError as error:
                is_used = error.errno == EADDRINUSE
                raise InputOutputError(
                    f"the virtual bench cannot be set up: {error}",
                    "--radio 127.0.0.1:0 chooses a free port" if is_used else "",
                ) from error
            # A controller begins slot 1 one slot after it reports that it is ready.
            lead_s = config.physical.slot_duration_s
            _serve(bench, driver, clock, schedule, signals, arguments, lead_s, config)
    except ForcedStop:
        return 128 + signals.first
    return 0


def _refuse_other_options(arguments: argparse.Namespace, driver: ProbeDriver) -> None:
    """Refuse a probe without an emulator, and what has no effect on the one that is emulated."""
    if arguments.probe not in (None, driver.name) and PROBES[arguments.probe] is not driver:
        fix = f"give {' or '.join(_emulated_probes())}"
        raise UsageError(f"--probe {arguments.probe}: has no emulator", fix)
    if arguments.radio is not None and not driver.server_port:
        raise UsageError("--radio: the probe is not a server", "give --probe-link, or remove it")
    if arguments.probe_link is not None and driver.server_port:
        raise UsageError("--probe-link: the probe has no port", "give --radio, or remove it")


def _emulated_probes() -> list[str]:
    return [driver.name for driver in PROBES.working() if driver.emulator]


def _reserve(option: str, link: Path | None, closing: ExitStack) -> None:
    """Reserve the link's name until `closing` ends: another virtual bench would take it."""
    if link is None:
        return
    if not link.absolute().parent.is_dir():
        raise InputOutputError(f"{option} {link}: there is no folder {link.absolute().parent}")
    try:
        closing.enter_context(InstanceLock(f"virtual bench {link.absolute()}"))
    except HardwareError as error:
        raise InputOutputError(f"{option} {link}: {error.detail}", "choose another name") from None


def _serve(
    bench: VirtualBench,
    driver: ProbeDriver,
    clock: WallClock,
    schedule: list[tuple[float, str]],
    signals: StopSignals,
    arguments: argparse.Namespace,
    lead_s: float,
    config: Config,
) -> None:
    """Switch it on, print how to use it, and execute commands."""
    with signals, bench, _manager(arguments.notify) as manager:
        socket_words = ""
        if arguments.notify is not None:
            socket_words = f"NOTIFY_SOCKET={shlex.quote(str(arguments.notify.absolute()))} "
        words = ["macontrol", "--backend", "serial", *config_words(arguments), "--yes"]
        address = bench.probe.address
        if is_reference(arguments.stage):
            words += ["--stage", arguments.stage]
        words += ["--port", bench.stage.port, "--probe", driver.option_at(address)]
        if bench.reference is not None:
            words += _reference_words(bench.reference.address, config)
        print(
            f"stage on {bench.stage.port}, {driver.noun} on {address}; try\n"
            f"  {socket_words}{shlex.join(words)}",
            flush=True,
        )
        _execute(bench, clock, sorted(schedule), signals, manager, lead_s)


@contextmanager
def _manager(path: Path | None) -> Iterator[socket.socket | None]:
    """The socket of a service manager, where a controller reports that it is ready."""
    if path is None:
        yield None
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        try:
            manager.bind(str(path.absolute()))
        except OSError as error:
            raise InputOutputError(f"{path}: cannot listen there: {error}") from error
        try:
            yield manager
        finally:
            with suppress(OSError):
                path.unlink()


def _execute(
    bench: VirtualBench,
    clock: WallClock,
    schedule: list[tuple[float, str]],
    signals: StopSignals,
    manager: socket.socket | None,
    lead_s: float,
) -> None:
    """Execute scheduled and typed commands until the bench is stopped."""
    start, typed, stdin = clock.now(), LineBuffer(), sys.stdin.fileno()
    sources: list[Any] = [stdin] if manager is None else [stdin, manager]
    while not signals.first:
        commands = []
        while schedule and clock.now() - start >= schedule[0][0]:
            commands.append(schedule.pop(0)[1])
        ready = select.select(sources, [], [], _POLL_INTERVAL_S)[0]
        if manager is not None and manager in ready and b"READY=1" in manager.recv(4096):
            bench.world.drift(clock.now() + lead_s)
            print(f"{clock.now() - start:8.1f} s  the controller is ready", flush=True)
        if stdin in ready:
            data = os.read(stdin, 4096)
            typed.feed(data or b"\n")  # the last line may have no line end
            if not data:
                sources.remove(stdin)
        while (line := typed.take()) is not None:
            commands.append(line.decode(errors="replace").strip())
        for command in filter(None, commands):
            if command == "quit":
                return
            try:
                bench.do(command)
                print(f"{clock.now() - start:8.1f} s  {command}", flush=True)
            except ValueError as error:
                print(f"{command}: {error}", flush=True)


def _port(text: str) -> int:
    """A TCP port to listen on; 0 is any free one."""
    if not (text.isdecimal() and int(text) < 1 << 16):
        raise argparse.ArgumentTypeError(f"{shortened(text)} is not a port: 0 to 65535")
    return int(text)


def _reference_words(address: str, config: Config) -> list[str]:
    """The options that name the reference receiver at this address."""
    settings = config.reference_probe or config.probe
    driver = PROBES[emulated_driver(config.model_copy(update={"probe": settings}))]
    keys = parse_probe_option(driver.option_at(address))
    found = {f"reference.{key.partition('.')[2]}": value for key, value in keys.items()}
    return [word for key, value in found.items() for word in ("--set", f"{key}={value}")]


def _radio_option(driver: ProbeDriver) -> str:
    return f"--{driver.name.replace('_', '-')}"


def _listening_address(text: str) -> tuple[str, int]:
    """An address like a radio's, where port 0 means any free port."""
    if text.endswith(":0"):
        return split_address(text.removesuffix("0") + "1")[0], 0
    return split_address(text)


def _read_schedule(path: Path) -> list[tuple[float, str]]:
    try:
        lines = read_input(path, CONFIG_LIMIT).decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: is not UTF-8 text: {error}", "give a text file") from error
    schedule = []
    for number, line in enumerate(lines, start=1):
        text = line.split("#")[0].strip()
        if not text:
            continue
        moment, _, command = text.partition(" ")
        try:
            seconds = float(moment)
        except ValueError:
            seconds = -1.0
        if not 0 <= seconds < float("inf") or command.split(" ")[0] not in (*FAULTS, "drift"):
            raise UsageError(
                f"{path}:{number}: {shortened(line)} is not a time and a fault, as in '30 unplug'",
                f"faults are: {', '.join(FAULTS)}",
            )
        try:
            parse_command(command.strip())
        except ValueError as error:
            raise UsageError(f"{path}:{number}: {shortened(line)}: {error}") from None
        schedule.append((seconds, command.strip()))
    return schedule
