"""Standard output and error that take any text, and that may be full or closed.

A terminal or a log that knows only ASCII gets a plain word for a sign that it lacks, as "lambda"
for λ. A file name that is not UTF-8 gets question marks.
"""

from __future__ import annotations

import codecs
import errno
import os
import sys
from contextlib import suppress
from typing import TextIO

from macontrol.config.model.errors import InputOutputError

PLAIN_WORDS = "macontrol-plain"
"""The error handler of an encoder that does so."""
# What it means that nothing more can be written: the disk or the quota is full, or it broke.
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
    """Have both outputs replace what they cannot encode; a closed input is at its end."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, ValueError, OSError):  # None, closed, or a test's own
            stream.reconfigure(errors=PLAIN_WORDS)  # type: ignore[union-attr]


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal; a closed one is not."""
    return stream is not None and stream.isatty()


def discard(stream: TextIO | None) -> None:
    """Lead a stream to /dev/null: what is still buffered would fail once more at exit."""
    with suppress(AttributeError, ValueError, OSError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())  # type: ignore[union-attr]
        os.close(null)


def say(text: str) -> None:
    """Print to standard error, if it can still take it."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        discard(sys.stderr)


def is_full(error: OSError) -> bool:
    """Whether an error came from a full stream; the error of a file names the file."""
    return error.errno in _FULL and error.filename is None


def full(error: OSError) -> InputOutputError:
    """Discard standard output after such an error; return the error to raise."""
    discard(sys.stdout)
    return InputOutputError(
        f"standard output: cannot be written: {error.strerror or error}; "
        "send it to a place that has room"
    )


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    signs = error.object[error.start : error.end]
    return "".join(_PLAIN.get(sign, "?") for sign in signs), error.end


codecs.register_error(PLAIN_WORDS, _plain)
