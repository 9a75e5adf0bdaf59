"""Start a helper process in Python without modules from the working directory.

`python -m` and `python -c` put the working directory first on the path, so a `json.py` in it would
be executed.
"""

from __future__ import annotations

import sys


def python_module(name: str) -> list[str]:
    """The command that runs a module; `-P` keeps the working directory off the path."""
    return [sys.executable, "-P", "-m", name]


def python_program(text: str) -> list[str]:
    """The command that runs a short program, which has only the standard library."""
    return [sys.executable, "-I", "-S", "-c", text]
