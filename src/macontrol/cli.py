"""The command line: the one place that wires the rooms together."""

import argparse
import sys
from collections.abc import Sequence

from macontrol import __version__


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="macontrol",
        description="Position a movable antenna on a linear stage with MoveUCB.",
    )
    parser.add_argument("--version", action="version", version=f"macontrol {__version__}")
    parser.add_argument("--backend", choices=["sim"], help="what stands behind the controller")
    arguments = parser.parse_args(argv)
    if arguments.backend is None:
        parser.print_help()
        return 0
    print("macontrol: the controller is not wired to the command line yet", file=sys.stderr)
    return 1
