"""Show the controller on the simulated bench: 30 s of a run, with the dashboard and a report.

The antenna walks along the rail once, and then finds its place and keeps it while the world
changes. The dashboard is a page in the browser; it is opened if there is a display. At the end a
summary, the report of the run, and commands to try next are printed.

  macontrol demo --duration 120     more time to look around
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from select import select
from shutil import which
from sysconfig import get_path
from types import ModuleType

from macontrol.commands import report, run
from macontrol.commands.shared_arguments import positive_number
from macontrol.config.model.suggestion import pip_install
from macontrol.controller.recording.runfile.files import default_run_folder
from macontrol.helper_process import python_module

DURATION_S = 30.0
_PAGE_TIMEOUT_S = 10.0
_NEXT = """\
Try next:
  macontrol dashboard                            this run and all others, in a browser
  macontrol --backend sim                        the paper's 5 ms slots; Ctrl-C ends them
  macontrol virtual-bench --link stage           an emulated stage and radio, on real ports; then
  macontrol --backend serial --port stage --yes  in another terminal
  macontrol --help                               everything else"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--duration",
        type=positive_number,
        default=DURATION_S,
        metavar="S",
        help=f"length of the run in seconds (default: {DURATION_S:g})",
    )


def main(arguments: argparse.Namespace) -> int:
    name = f"demo-{os.getpid()}"
    with _dashboard() as page:
        if page:
            print(f"Watch it in a browser: {page}", flush=True)
        if page and _has_display():
            webbrowser.open(page)
        length = ("--duration", str(arguments.duration))
        code = _execute(run, "--backend", "sim", "--preset", "demo", "--name", name, *length)
    if code != 0:
        return code
    for recorded in default_run_folder().glob(f"{name}-*.sqlite"):
        _execute(report, str(recorded), "--out", str(recorded.with_suffix(".html")))
    if which("macontrol") is None:
        commands = get_path("scripts")
        print(f'To have the commands: export PATH="{commands}:$PATH"')
    print(_NEXT)
    return 0


def _execute(command: ModuleType, *words: str) -> int:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    code: int = command.main(parser.parse_args(words))
    return code


@contextmanager
def _dashboard() -> Iterator[str]:
    """A dashboard on a free port; its address, or an empty text if there is none."""
    if find_spec("tornado") is None:
        print(f"For a page in the browser: {pip_install('tornado')}", flush=True)
        yield ""
        return
    command = [*python_module("macontrol"), "dashboard", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield _address(process)
        finally:
            process.terminate()


def _address(process: subprocess.Popen[bytes]) -> str:
    """The address that the dashboard prints first."""
    assert process.stdout is not None
    if not select([process.stdout], [], [], _PAGE_TIMEOUT_S)[0]:
        return ""
    return process.stdout.readline().decode().removeprefix("dashboard: ").strip()


def _has_display() -> bool:
    return sys.stdout.isatty() and bool({"DISPLAY", "WAYLAND_DISPLAY"} & set(os.environ))
