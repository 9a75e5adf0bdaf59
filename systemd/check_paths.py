"""Refuse an installation that the service cannot run; `make install` runs this with its PYTHON.

The unit hides home and temporary folders (ProtectHome, PrivateTmp) and runs as a separate user
(DynamicUser). A program or an interpreter in such a folder ends the service with 203/EXEC.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

HIDDEN = ("/home", "/root", "/run/user", "/tmp", "/var/tmp")


def obstacle(path: str, hidden: Sequence[str] = HIDDEN) -> str | None:
    """Return why the service cannot reach a path, as written or resolved; None if it can."""
    written, real = Path(os.path.abspath(path)), Path(path).resolve()
    for each in (written, real):
        for folder in hidden:
            if each.is_relative_to(folder):
                return f"{each} is in {folder}, which the unit hides from it"
    for part in (real, *real.parents):
        if part.exists() and not part.stat().st_mode & stat.S_IXOTH:
            return f"other users may not enter {part}"
    return None


def main(prefix: str, configuration: str) -> int:
    # For a virtual environment: the interpreter and the library that it is based on.
    base: str = getattr(sys, "_base_executable", sys.executable)
    if why := obstacle(base) or obstacle(os.path.dirname(os.__file__)):
        return _refuse(
            f"The service could not run {base}: {why}",
            "use an interpreter for all users: make install PYTHON=/usr/bin/python3",
        )
    if why := obstacle(prefix):
        return _refuse(
            f"The service could not run the program in {prefix}: {why}",
            "choose another folder: make install PREFIX=/opt/macontrol",
        )
    for name, value in (("PREFIX", prefix), ("CONFDIR", configuration)):
        if len(value.split()) != 1:
            return _refuse(f"{name}={value} has a space", "a unit cannot name it; choose another")
    return 0


def _refuse(why: str, fix: str) -> int:
    print(f"{why}.\nFix: {fix}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
