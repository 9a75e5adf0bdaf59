"""`python -m macontrol` is the `macontrol` command."""

import sys

from macontrol.cli import main

if __name__ == "__main__":
    sys.exit(main())
