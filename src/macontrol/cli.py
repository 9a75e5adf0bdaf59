"""The command line: the one place that wires the rooms together.

`macontrol` with options but no command runs the controller; every other thing it does is a
command, one module each in `commands`.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn, Protocol

from macontrol import __version__
from macontrol.commands import (
    bench,
    check,
    devices,
    export,
    replay,
    reproduce,
    run,
    simulate_map,
    survey,
    virtual_bench,
)
from macontrol.config.errors import MacontrolError, UsageError


class Command(Protocol):
    """A command's module: its docstring is the description that `--help` shows."""

    SUMMARY: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...
    def main(self, arguments: argparse.Namespace) -> int: ...


COMMANDS: dict[str, Command] = {
    "check": check,
    "devices": devices,
    "survey": survey,
    "export": export,
    "replay": replay,
    "simulate-map": simulate_map,
    "reproduce": reproduce,
    "bench": bench,
    "virtual-bench": virtual_bench,
}

EPILOG = f"""\
commands ('macontrol COMMAND --help' tells more of each):
{chr(10).join(f"  {name:14} {module.SUMMARY}" for name, module in COMMANDS.items())}

examples:
  macontrol --backend sim                         the controller on the simulated bench
  macontrol virtual-bench --link stage            a stage and a radio that are not there; then
  macontrol --backend serial --port stage --yes   the controller on them
  macontrol simulate-map --seed 7 --out map.npz   a world to try policies on
  macontrol replay map.npz --policy gp-ucb        one policy on it
  macontrol reproduce main --out figures          the paper's main figure

exit codes: 0 done, 64 wrong usage, 65 unusable input file, 69 hardware unavailable,
70 internal error, 74 input/output error, 78 wrong configuration, 128 + n forced by signal n.
"""


class Parser(argparse.ArgumentParser):
    """An argument parser that leaves with the usage exit code of sysexits.h."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(UsageError.exit_code, f"{self.prog}: error: {message}\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        if words and words[0] in COMMANDS:
            module = COMMANDS[words[0]]
            parser = Parser(
                prog=f"macontrol {words[0]}",
                description=module.__doc__,
                formatter_class=argparse.RawDescriptionHelpFormatter,
            )
            module.add_arguments(parser)
            return _flushed(module.main(parser.parse_args(words[1:])))
        parser = Parser(
            prog="macontrol",
            description="Position a movable antenna on a linear stage, live, with MoveUCB.",
            epilog=EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        parser.add_argument("--version", action="version", version=f"macontrol {__version__}")
        run.add_arguments(parser)
        if words and not words[0].startswith("-"):
            parser.error(f"no command called {words[0]!r}; there are: {', '.join(COMMANDS)}")
        if not words:
            parser.print_help()
            return _flushed(0)
        return _flushed(run.main(parser.parse_args(words)))
    except MacontrolError as error:
        print(f"macontrol: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # the reader of our output went away, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        traceback.print_exception(error)
        print(f"macontrol: internal error: {error!r}; please report it", file=sys.stderr)
        return MacontrolError.exit_code
    except KeyboardInterrupt:
        print("macontrol: interrupted", file=sys.stderr)
        return 130


def _flushed(code: int) -> int:
    """The exit code, with the output gone out: a reader that went away is noticed in time."""
    if sys.stdout is not None and not sys.stdout.closed:
        sys.stdout.flush()
    return code
