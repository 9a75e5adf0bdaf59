"""The commands that act on a running daemon: hold, resume, goto, set, resurvey, noise-floor, stop.

Each is one request to the control socket.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import suppress
from math import isfinite
from typing import Any

from macontrol.commands.shared_arguments import add_hand_arguments, refuse_bench_arguments
from macontrol.config.model.errors import NoDaemonError, UsageError
from macontrol.config.model.suggestion import shortened
from macontrol.control.client import open_client

Parameters = dict[str, Any]


class ActionCommand:
    """A command that sends one request."""

    def __init__(
        self,
        name: str,
        description: str,
        *,
        argument: tuple[str, str] | None = None,
        parameters: Callable[[str], Parameters] = lambda _: {},
    ) -> None:
        """`argument` is the name and the help of its argument; `parameters` come from it."""
        self.__doc__ = description
        self._name = name
        self._argument = argument
        self._parameters = parameters

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        if self._argument is not None:
            metavar, text = self._argument
            parser.add_argument("argument", metavar=metavar, help=text)
        parser.add_argument(
            "name",
            nargs="?",
            metavar="NAME",
            help="name or port of the bench (default: the only daemon)",
        )

    def main(self, arguments: argparse.Namespace) -> int:
        parameters = self._parameters(getattr(arguments, "argument", ""))
        with open_client(arguments.name, f"macontrol {self._name}") as client:
            result = client.call(self._name.replace("-", "_"), **parameters)
            when = {"deferred": ", effective in the first slot that runs"}
            outcome = result["outcome"]
            print(f"{client.about['name']}: {self._name} {outcome}{when.get(outcome, '')}")
        return 0


def parse_position(text: str) -> Parameters:
    """1.5 is in wavelengths, 25mm in millimetres."""
    number = text.removesuffix("mm").strip()
    try:
        return {"position" if number == text.strip() else "position_mm": _finite(number)}
    except ValueError:
        raise UsageError(
            f"{shortened(text)} is not a position", "give wavelengths (1.5), or 25mm"
        ) from None


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError
    return number


def _setting(text: str) -> Parameters:
    key, equals, number = text.partition("=")
    try:
        return {"key": key.strip(), "value": _finite(number)}
    except ValueError:
        fix = "as in beta=2" if equals else "give KEY=VALUE, as in beta=2"
        raise UsageError(f"{shortened(text)} is not a setting with a number", fix) from None


class GotoCommand(ActionCommand):
    """`goto`, of a running daemon or of a bench that no daemon has."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        super().add_arguments(parser)
        add_hand_arguments(parser, required=False)

    def main(self, arguments: argparse.Namespace) -> int:
        if arguments.backend is None:
            refuse_bench_arguments(arguments)
            for option in ("config", "preset", "set", "seed"):
                if getattr(arguments, option):
                    raise UsageError(f"--{option} needs --backend", "a daemon has its own config")
            try:
                return super().main(arguments)
            except NoDaemonError as error:
                error.fix += ", or give --backend to move the antenna before a run"
                raise
        if arguments.name is not None:
            raise UsageError(
                f"{shortened(arguments.name)}: with --backend, --port names the bench",
                "remove the name, or --backend",
            )
        from macontrol.commands.jog import bench_of, go_to

        with suppress(NoDaemonError):
            arguments.name = bench_of(arguments)
            return super().main(arguments)
        return go_to(arguments, **parse_position(arguments.argument))


COMMANDS = {
    "hold": ActionCommand(
        "hold",
        "Keep the antenna where it is, from the next slot on. Slots are still measured. "
        "`macontrol resume` ends the hold.",
    ),
    "resume": ActionCommand("resume", "Let the policy decide again, after hold or goto."),
    "goto": GotoCommand(
        "goto",
        "Bring the antenna to a position, stroke by stroke, and hold it there. With --backend, a "
        "bench that no daemon has is opened for it: the stage is homed first, with --yes or after "
        "you agree, every stroke passes the guard, the level is shown on the way, and the antenna "
        "stays where it arrives.",
        argument=("POSITION", "in wavelengths (1.5), or in millimetres (25mm)"),
        parameters=parse_position,
    ),
    "set": ActionCommand(
        "set",
        "Change a setting of the policy within the run. `macontrol status` lists those that can "
        "change. The next run begins with the configured value again.",
        argument=("KEY=VALUE", "such as beta=2; the same as algorithm.beta=2"),
        parameters=_setting,
    ),
    "resurvey": ActionCommand(
        "resurvey",
        "Walk the rail again, and continue with a policy that starts from this survey.",
    ),
    "noise-floor": ActionCommand(
        "noise-floor",
        "Measure the noise floor again, as SIGUSR1 does. Switch the transmitter off first, unless "
        "the config has commands for that (tx.off_command).",
    ),
    "stop": ActionCommand("stop", "End the run after its slot, as SIGTERM does."),
}
