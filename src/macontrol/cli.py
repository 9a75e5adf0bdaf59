"""The command line, which wires the rooms together.

`macontrol` with options but no command runs the controller. Everything else is a command with a
module of its own in `commands`.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Protocol, cast

from macontrol import __version__
from macontrol.command_parser import HelpFormatter, Parser
from macontrol.config.model.errors import MacontrolError, UsageError
from macontrol.config.model.suggestion import did_you_mean, shortened
from macontrol.standard_streams import (
    discard,
    is_full,
    output_error,
    prepare_streams,
    print_error,
)


class Command(Protocol):
    """A command's module, or an object like one: `--help` shows its docstring."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...
    def main(self, arguments: argparse.Namespace) -> int: ...


COMMANDS = {
    "demo": "show the controller on the simulated bench, with dashboard and report",
    "check": "check a configuration, or a whole bench: what is wrong and how to fix it",
    "config": "show every setting, its value and where it was set",
    "devices": "list likely stages, radios and instruments on this machine, and who uses them",
    "plugins": "list stages, probes and policies, also of other distributions, and what is broken",
    "status": "show what a running daemon does",
    "hold": "keep the antenna where it is",
    "resume": "let the policy decide again, after hold or goto",
    "goto": "bring the antenna to a position, and hold it there; also before a run",
    "set": "change a setting of the policy within the run",
    "resurvey": "survey the rail again within the run",
    "noise-floor": "measure the noise floor again within the run",
    "stop": "end a run",
    "jog": "move the antenna by hand before a run, with the level shown live",
    "survey": "measure the reward along the rail once, and write it to a file",
    "calibrate": "measure a site: settings for a run, with intervals, and a report page",
    "dashboard": "serve a web page that shows daemons and runs, and can act on daemons",
    "runs": "list recorded runs, remove old ones, describe the columns of a run file",
    "report": "write a recorded run as a page with figures, for any browser",
    "compare": "compare recorded runs, with the standard errors of their differences",
    "export": "write a recorded run as csv, npz, netCDF, or a reward map",
    "replay": "run a policy on a recorded or simulated reward map",
    "simulate-map": "write a simulated world that policies can be replayed on",
    "reproduce": "compute the paper's figures, compared with the paper's values",
    "bench": "measure macontrol on this machine, or compare policies on a bench",
    "virtual-bench": "emulate a stage and a radio in one simulated world",
    "completion": "print the completion script of a shell",
}
"""Each command and its summary. A module is loaded when it is used: some take a second."""

# Commands that share a module: each acts on a running daemon.
_ACTIONS = ("hold", "resume", "goto", "set", "resurvey", "noise-floor", "stop")

DESCRIPTION = "Position a movable antenna on a linear stage, live, with MoveUCB."

EXIT_CODES = """\
0 done, 64 wrong usage, 65 unusable input file, 66 input file missing or unreadable,
69 hardware or daemon unavailable, 70 internal error, 74 input/output error, 75 an operator's action
is refused for now, 78 wrong configuration,
128 + n ended by signal n."""

EPILOG = f"""\
commands ('macontrol help COMMAND' explains each; without a command the controller runs):
{chr(10).join(f"  {name:14} {summary}" for name, summary in COMMANDS.items())}

examples:
  macontrol --backend sim                         the controller on the simulated bench
  macontrol virtual-bench --link stage            an emulated stage and radio; then
  macontrol --backend serial --port stage --yes   the controller on them
  macontrol simulate-map --seed 7 --out map.npz   a world to try policies on
  macontrol replay map.npz --policy gp-ucb        one policy on it
  macontrol reproduce main --out figures          the paper's main figure

exit codes: {EXIT_CODES}
"""


_WITHOUT_MODULE = ("help", "version")
# A user may type these to run the controller, which is not a command.
_RUNNING = ("run", "start", "control", "daemon")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    prepare_streams()
    try:
        return _run_and_flush(words)
    except MacontrolError as error:
        print_error(f"macontrol: {error}")
        return error.exit_code
    except BrokenPipeError:  # the reader has ended, as `| head` does
        discard(sys.stdout)
        return 0
    except Exception as error:
        print_error("".join(traceback.format_exception(error)))
        print_error(f"macontrol: internal error: {error!r}; please report it")
        return MacontrolError.exit_code
    except KeyboardInterrupt:
        print_error("macontrol: interrupted")
        return 130


def _run_and_flush(words: list[str]) -> int:
    """Run a command and flush its output, so that the error of a full output is raised here."""
    try:
        try:
            return _run(words)
        finally:
            if sys.stdout is not None and not sys.stdout.closed:
                sys.stdout.flush()
    except OSError as error:
        if is_full(error):
            raise output_error(error) from error
        raise


def load_command(command: str) -> Command:
    """The module of a command, or its part of a module that several commands share."""
    home = "operate" if command in _ACTIONS else command.replace("-", "_")
    module = import_module(f"macontrol.commands.{home}")
    return cast(Command, module.COMMANDS[command] if command in _ACTIONS else module)


def parser_of(command: str) -> Parser:
    """The parser of a command; of the controller, which runs without one, for an empty name."""
    module = load_command(command or "run")
    parser = Parser(
        prog=f"macontrol {command}".strip(),
        description=module.__doc__ if command else DESCRIPTION,
        epilog=None if command else EPILOG,
        formatter_class=HelpFormatter,
    )
    if not command:
        parser.add_argument("--version", action="version", version=f"macontrol {__version__}")
    module.add_arguments(parser)
    return parser


def all_parsers() -> dict[str, Parser]:
    """The parser of the controller, under an empty name, and of each command."""
    return {command: parser_of(command) for command in ("", *COMMANDS)}


def _run(words: list[str]) -> int:
    """Run the command; without one, run the controller."""
    if words and words[0] == "help":
        words = [*(word for word in words[1:] if word not in _WITHOUT_MODULE), "--help"]
    if words and words[0] in ("version", "--version"):  # without loading any command
        print(f"macontrol {__version__}")
        return 0
    if words and words[0] in COMMANDS:
        arguments = parser_of(words[0]).parse_args(words[1:])
        return load_command(words[0]).main(arguments)
    parser = parser_of("")
    if words and not words[0].startswith("-"):
        raise _unknown_command(words[0])
    if not words:
        parser.print_help()
        return 0
    return load_command("run").main(parser.parse_args(words))


def _unknown_command(word: str) -> UsageError:
    fix = did_you_mean(word, [*COMMANDS, *_WITHOUT_MODULE])
    if word.casefold() in _RUNNING:
        fix = (
            "`macontrol --backend sim` runs the controller on the simulated bench, "
            "`macontrol --backend serial` on a stage and a probe"
        )
    return UsageError(f"no command {shortened(word)}", fix)
