"""Serve a web page that shows all daemons of this machine and all recorded runs.

The page is live, draws a finished run in the same way, and can act on a daemon: hold, resume, go
to, change a setting, stop. It is a process of its own and does not slow a run.

By default it listens on this machine only, where everybody may look, and whoever has the token may
act. The token is part of the printed address, and in a file that only its user may read. On any
other address also looking needs the token. The page needs no internet.

  macontrol dashboard                               http://127.0.0.1:8765
  macontrol dashboard --listen 192.168.1.5:8765     also for other machines
  macontrol dashboard ~/bench/runs                  also shows the run files of a folder
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from macontrol.config.model.errors import MacontrolError, UsageError
from macontrol.config.model.suggestion import pip_install

DEFAULT = "127.0.0.1:8765"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "places",
        nargs="*",
        type=Path,
        metavar="RUN",
        help="a run file, or a folder of run files, to list beside those of the state folder",
    )
    parser.add_argument(
        "--listen",
        default=DEFAULT,
        metavar="ADDRESS:PORT",
        help=f"where the page is served; port 0: any free one (default: {DEFAULT})",
    )


def main(arguments: argparse.Namespace) -> int:
    from macontrol.controller.recording.runfile.files import default_run_folder
    from macontrol.dashboard.access import parse_listen

    host, port = parse_listen(arguments.listen)
    try:
        from macontrol.dashboard.server import serve
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "tornado":
            raise
        raise MacontrolError("the dashboard needs tornado", pip_install("tornado")) from error
    for place in arguments.places:
        if not place.exists():
            raise UsageError(f"{place}: no such file or folder")
    serve(host, port, default_run_folder(), arguments.places, _report)
    return 0


def _report(address: str, token_file: Path) -> None:
    """Print where the page is. A journal has many readers, so it gets the file of the token."""
    if os.environ.get("JOURNAL_STREAM"):
        address = address.partition("?")[0]
    print(
        f"dashboard: {address}\nthe token is in {token_file}; Ctrl-C ends the dashboard", flush=True
    )
