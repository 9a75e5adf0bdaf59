"""`python -m macontrol` is the `macontrol` command."""

import sys


def entry() -> int:
    """Load the command line and run it. Loading takes a second, in which Ctrl-C is heard too."""
    try:
        from macontrol.cli import main
    except KeyboardInterrupt:
        print("macontrol: interrupted", file=sys.stderr)
        return 130
    return main()


if __name__ == "__main__":
    sys.exit(entry())
