"""The syntax of SCPI: lines with several commands, short and long forms, optional parts.

A pattern is written as in a manual: `INITiate[:IMMediate]`. Capitals are the short form. Every word
of a command may end with a number, as in `TRAC1`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

Function: TypeAlias = Callable[[list[str]], str | None]
_PART = re.compile(r"[A-Za-z]+|\*|\[|\]|:|\?")


class ScpiError(Exception):
    """An error of the standard, with its number."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text


def _expression(pattern: str) -> str:
    parts = {"[": "(?:", "]": ")?", "*": r"\*", "?": r"\?", ":": ":"}
    found = []
    for part in _PART.findall(pattern):
        if part in parts:
            found.append(parts[part])
            continue
        short = "".join(letter for letter in part if letter.isupper())
        rest = part[len(short) :]
        found.append(f"{short}(?:{rest.upper()})?[0-9]*" if rest else f"{short}[0-9]*")
    return ":?" + "".join(found)


class Table:
    """The commands that an instrument knows."""

    def __init__(self) -> None:
        self._functions: list[tuple[re.Pattern[str], Function]] = []

    def add(self, pattern: str, function: Function) -> None:
        """Add a command; a query ends with a question mark and has an answer."""
        self._functions.append((re.compile(_expression(pattern), re.IGNORECASE), function))

    def function(self, header: str) -> Function:
        """What a command does; -113 if it is unknown."""
        for expression, function in self._functions:
            if expression.fullmatch(header):
                return function
        raise ScpiError(-113, "Undefined header")

    @staticmethod
    def require(given: list[str], *known: str) -> None:
        """Refuse parameters that are not one of the known ones."""
        if not given:
            raise ScpiError(-109, "Missing parameter")
        if ",".join(given).upper() not in known:
            raise ScpiError(-224, "Illegal parameter value")

    @staticmethod
    def number(given: list[str], lowest: float, highest: float) -> float:
        """The number of a command."""
        if not given:
            raise ScpiError(-109, "Missing parameter")
        try:
            value = float(given[0])
        except ValueError:
            raise ScpiError(-104, "Data type error") from None
        if not lowest <= value <= highest:
            raise ScpiError(-222, "Data out of range")
        return value


def units_of(line: str) -> Iterator[tuple[str, str]]:
    """The commands of a line, each with its full header and its parameters.

    After a semicolon, a header without a colon continues in the folder of the previous one.
    """
    folder = ""
    for unit in line.split(";"):
        words = unit.strip().split(None, 1)
        if not words:
            continue
        header = words[0]
        if not header.startswith("*"):
            header = header if header.startswith(":") else folder + header
            folder = header.rpartition(":")[0] + ":" if ":" in header else ""
        yield header, words[1] if len(words) > 1 else ""


def parameters_of(text: str) -> list[str]:
    """The parameters of a command, which commas separate."""
    return [each.strip() for each in text.split(",")] if text else []
