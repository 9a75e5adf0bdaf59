"""Writes docs/run-file.md from the declarations of columns, events and reasons.

`make docs` runs it; a test checks that the page is current.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from macontrol.controller.recording.events import event_rows, reason_rows
from macontrol.controller.recording.runfile.schema import column_rows

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/run-file.md"

_INTRODUCTION = """\
# The run file

A run file is an SQLite database with three tables: `header` (key and JSON value), `slots` (one row
per slot) and `events`. `macontrol export` converts it to CSV, npz or netCDF with the same columns.
`macontrol runs --schema` prints this page on the terminal. The header's key `origins` says where
each setting was set, for those that are not a default. The key `survey` has the survey that the
run started from: position, reward and, in `samples`, what else is known of each sample
(uncertainty, time in UTC, level, its unit, noise floor, SNR, clipped share, number of samples).

A value that is the usual one takes no space: a target or a next position that is the position, and
an uncertainty, a unit, a noise floor or a transmission share that is that of the first slot. These
columns are computed when they are read, each from a column whose name begins with `stored_`. There
null stands for the usual value and '' for null. To change a value by SQL, write into the stored
column. SQLite 3.31 or newer reads such a file.

This page is generated from the code: run `make docs` after a change.
"""


def page() -> str:
    """The content of docs/run-file.md."""
    columns = column_rows()
    parts = [_INTRODUCTION]
    for table, title in (("slots", "Columns of a slot"), ("events", "Columns of an event")):
        rows = [(f"`{name}`", unit, text) for of, name, unit, text in columns if of == table]
        parts.append(f"## {title}\n\n" + markdown_table(("column", "unit", "meaning"), rows))
    events = [(f"`{kind}`", meaning, value) for kind, meaning, value in event_rows()]
    parts.append("## Events\n\n" + markdown_table(("kind", "meaning", "value"), events))
    reasons = [(f"`{name}`", meaning) for name, meaning in reason_rows()]
    parts.append(
        "## Reasons\n\nWhy a slot has no reward, in the column `invalid`. "
        "[probes.md](probes.md#reasons)\nexplains what helps.\n\n"
        + markdown_table(("reason", "meaning"), reasons)
    )
    return "\n".join(parts)


def markdown_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [_row(heads), "|" + "---|" * len(heads), *(_row(row) for row in rows)]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return "|" + "".join(
        f" {cell.replace('|', chr(92) + '|')} |" if cell else " |" for cell in cells
    )


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    sys.stdout.write(f"{PAGE.relative_to(ROOT)} is written\n")
