"""Standard output and error for any text, even if they are full, closed or ASCII only.

An ASCII terminal or log gets a plain word for a character that it lacks, as "lambda" for λ. Bytes
of a file name that are not UTF-8 become question marks.
"""

from __future__ import annotations

import codecs
import errno
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from macontrol.config.model.errors import InputOutputError, reason_of

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

PLAIN_WORDS = "macontrol-plain"
"""The encoding error handler that replaces characters by plain words."""
# Errors after which nothing more can be written: disk or quota is full, or the device failed.
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
_PLAIN = {
    "λ": "lambda",
    "σ": "sigma",
    "ρ": "rho",
    "Δ": "Delta",
    "Σ": "sum",
    "ε": "epsilon",
    "β": "beta",
    "η": "eta",
    "µ": "u",
    "×": "x",
    "·": "*",
    "±": "+-",
    "≤": "<=",
    "≥": ">=",
    "≈": "~",
    "→": "->",
    "…": "...",
    "–": "-",
    "−": "-",
    "′": "'",
    "²": "^2",
    "°": " deg",
}


def prepare_streams() -> None:
    """Make both outputs replace what they cannot encode, and a closed input empty."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, ValueError, OSError):  # None, closed, or replaced by a test
            stream.reconfigure(errors=PLAIN_WORDS)  # type: ignore[union-attr]


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal; a closed one is not."""
    return stream is not None and stream.isatty()


def discard(stream: TextIO | None) -> None:
    """Redirect a stream to /dev/null: its buffered text would fail again at exit."""
    with suppress(AttributeError, ValueError, OSError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())  # type: ignore[union-attr]
        os.close(null)


def print_error(text: str) -> None:
    """Print to standard error, if that is possible."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        discard(sys.stderr)


def print_plain(console: Console, text: str | Text) -> None:
    """Print text as it is: not folded, without markup."""
    console.print(text, soft_wrap=True, highlight=False, markup=False)


def print_written(console: Console, *paths: Path | None) -> None:
    """Print which files were written."""
    for path in paths:
        if path is not None:
            print_plain(console, f"Written: {path}")


def is_full(error: OSError) -> bool:
    """Whether an error comes from a full standard stream; the error of a file names the file."""
    return error.errno in _FULL and error.filename is None


def output_error(error: OSError) -> InputOutputError:
    """Discard standard output after an error of `is_full`; return the error to raise."""
    discard(sys.stdout)
    return InputOutputError(
        f"standard output: cannot be written: {reason_of(error)}",
        "redirect it to a disk that has room",
    )


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    characters = error.object[error.start : error.end]
    return "".join(_PLAIN.get(each, "?") for each in characters), error.end


codecs.register_error(PLAIN_WORDS, _plain)
