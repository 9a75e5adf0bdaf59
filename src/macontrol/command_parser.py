"""An argument parser with short errors: one usage line, and the closest known word.

Its help fits the terminal.
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from macontrol.config.model.errors import UsageError
from macontrol.config.model.suggestion import did_you_mean, shortened
from macontrol.standard_streams import print_error

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

_WIDEST = 100
_NARROWEST_COLUMN = 24
_TWO_COLUMNS = re.compile(r"( *\S.*?  +)(\S.*)")
_OPTION = re.compile(r"--?[A-Za-z][^\s=]*")


class HelpFormatter(argparse.HelpFormatter):
    """Wraps each paragraph to the terminal, and each entry of a list in its second column."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        filled: list[str] = []
        width = min(width, _WIDEST)
        for prefix, words in _paragraphs(text):
            if prefix.strip() and width - len(prefix) < _NARROWEST_COLUMN:
                filled.append(prefix.rstrip())
                prefix = " " * (2 * (len(prefix) - len(prefix.lstrip())) + 2)
            filled += _wrapped(words, width, prefix) or [""]
        return "".join(f"{indent}{line}\n" for line in filled)


def _wrapped(words: str, width: int, prefix: str) -> list[str]:
    """Lines broken at spaces only, so that options and names stay whole."""
    return textwrap.wrap(
        words,
        width,
        initial_indent=prefix,
        subsequent_indent=" " * len(prefix),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _paragraphs(text: str) -> list[tuple[str, str]]:
    """Each paragraph or list entry: the prefix of its first line, and its text."""
    found: list[tuple[str, str]] = []
    for line in text.splitlines():
        words = line.lstrip()
        margin = " " * (len(line) - len(words))
        entry = _TWO_COLUMNS.fullmatch(line)
        if entry:
            found.append((entry[1], entry[2]))
        elif words and found and found[-1][1] and len(found[-1][0]) == len(margin):
            found[-1] = (found[-1][0], f"{found[-1][1]} {words}")
        else:
            found.append((margin, words))
    return found


class Parser(argparse.ArgumentParser):
    """An argument parser that exits with the usage error of sysexits.h."""

    def error(self, message: str) -> NoReturn:
        self.exit(UsageError.exit_code, f"{self._usage_line()}\n{self.prog}: error: {message}\n")

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        """Print help, a version or an error. argparse ignores the error of a full output."""
        if file is None or file is sys.stderr:
            print_error(message.removesuffix("\n"))
        else:
            file.write(message)

    def parse_known_args(  # type: ignore[override]  # argparse declares it for any namespace
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Report unknown options first; argparse reports a missing one instead."""
        if args is not None and self._subparsers is None:
            self._refuse_unknown_options(args)
        return super().parse_known_args(args, namespace)

    def _refuse_unknown_options(self, words: Sequence[str]) -> None:
        known = self._option_string_actions
        for word in words:
            if word == "--":
                return
            found = _OPTION.match(word)
            if found is None or any(option.startswith(found[0]) for option in known):
                continue
            self.error(f"no option {shortened(found[0])}; {did_you_mean(found[0], known)}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            hint = did_you_mean(str(value), [str(choice) for choice in action.choices])
            raise argparse.ArgumentError(action, f"no choice {shortened(value)}; {hint}")

    def _usage_line(self) -> str:
        """The usage with the required arguments; `--help` lists the others."""
        words = [f"usage: {self.prog}"]
        for action in self._actions:
            if action.required and action.option_strings:
                words.append(f"{action.option_strings[0]} {_value_name(action)}")
        words.append("[options]")
        for action in self._actions:
            if not action.option_strings:
                name = _value_name(action)
                words.append(f"[{name}]" if action.nargs == argparse.OPTIONAL else name)
        return f"{' '.join(words)}   ('{self.prog} --help' lists them)"


def _value_name(action: argparse.Action) -> str:
    if isinstance(action.metavar, str):
        return action.metavar
    if action.choices is not None:
        return f"{{{','.join(str(choice) for choice in action.choices)}}}"
    return action.dest.upper()
