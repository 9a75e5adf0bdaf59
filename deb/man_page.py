"""Print the manual page macontrol(1); `make deb` runs this with the installed macontrol.

usage: man_page.py DATE
"""

from __future__ import annotations

import sys

from macontrol import __version__
from macontrol.cli import COMMANDS, EXIT_CODES, all_parsers
from macontrol.manual_page import manual_page

if __name__ == "__main__":
    print(manual_page(all_parsers(), COMMANDS, EXIT_CODES, __version__, sys.argv[1]), end="")
