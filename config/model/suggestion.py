"""Parts of messages: the closest known word, the command that installs a package."""

from __future__ import annotations

import difflib
import shlex
import sys
from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Name the closest known word, ignoring case and dashes; if none is close, list them all."""
    words = list(known)
    folded = {_folded(name): name for name in reversed(words)}
    close = difflib.get_close_matches(_folded(word)[:100], folded, n=1)
    if close:
        return f"did you mean {folded[close[0]]}?"
    return f"known are: {', '.join(words)}"


def pip_install(*packages: str) -> str:
    """The command that installs packages for the Python that runs macontrol.

    It names no extra of macontrol: pip finds these only where macontrol itself is installed, which
    is not so in the environment of `make demo`.
    """
    return shlex.join([sys.executable, "-m", "pip", "install", *packages])


def shortened(value: object, most: int = 60) -> str:
    """A value for a message, cut if it is long."""
    try:
        text = repr(value)
    except ValueError:  # Python does not print a number of more than 4300 digits
        return "a number of thousands of digits"
    return cut(text, most)


def cut(text: str, most: int = 100) -> str:
    """A text for a message, cut if it is long."""
    return text if len(text) <= most else text[: most - 3] + "..."


def _folded(word: str) -> str:
    return word.casefold().replace("_", "-").lstrip("-")
