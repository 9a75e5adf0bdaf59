"""How a helper process in Python is started: without modules from the working directory.

`python -m` and `python -c` put the working directory first on the path, so a `json.py` that lies
there would be executed.
"""

from __future__ import annotations

import sys


def python_module(name: str) -> list[str]:
    """The command that runs a module of ours; `-P` keeps the working directory off the path."""
    return [sys.executable, "-P", "-m", name]
