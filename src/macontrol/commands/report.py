"""Write the report of a recorded run: one HTML file that opens in any browser.

The page begins with a sentence on how the run went. Then it shows the antenna on the rail, the
reward, the estimate of the policy, faults, timing, the checks of the theory and the configuration.
It needs no network and contains no script. A run on the simulated bench is compared with a fixed
antenna and with the oracle; its world is computed again from config and seed.

Without RUN, the newest run in the state folder is used. A run can be reported before it ends.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from macontrol.commands.shared_arguments import refuse_input_as_output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "run",
        type=Path,
        nargs="?",
        metavar="RUN",
        help="the run file (default: the newest one in the state folder)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="the page to write (default: RUN.html in the current folder)",
    )


def main(arguments: argparse.Namespace) -> int:
    from macontrol.config.files.atomic_file import atomic_text, check_output
    from macontrol.reports.listing import newest_run
    from macontrol.reports.recorded import read_recorded
    from macontrol.reports.run_report import report

    run = arguments.run or newest_run()
    out = arguments.out or Path(f"{run.stem}.html")
    refuse_input_as_output("--out", out, run, "run file")
    check_output(out)
    recorded = read_recorded(run)
    text = report(recorded)
    with atomic_text(out) as file:
        file.write(text)
    print(f"Written: {out}")
    return 0
