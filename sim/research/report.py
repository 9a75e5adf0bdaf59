"""Write the results of a reproduction: numbers as CSV and JSON, the table of bars, a summary."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from io import StringIO
from math import isnan
from pathlib import Path
from typing import Any

from macontrol import __version__
from macontrol.config.files.atomic_file import atomic_text
from macontrol.sim.research.bars import Line, markdown
from macontrol.sim.research.figures.outcome import Outcome, Row
from macontrol.sim.research.figures.setting import Setting
from macontrol.sim.research.statistics import Estimate

COLUMNS = (
    "panel",
    "scenario",
    "series",
    "parameter",
    "value",
    "quantity",
    "mean",
    "standard_error",
    "realizations",
)


def write_numbers(folder: Path, name: str, outcome: Outcome) -> list[Path]:
    """Write the numbers of a figure; return the paths NAME.csv and NAME.json."""
    rows = StringIO()
    writer = csv.writer(rows, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in outcome.rows:
        error = "" if isnan(row.estimate.standard_error) else repr(row.estimate.standard_error)
        writer.writerow([*row[:-1], repr(row.estimate.mean), error, row.estimate.realizations])
    write_text(folder / f"{name}.csv", rows.getvalue())
    content = {
        "figure": name,
        "rows": [_row(row) for row in outcome.rows],
        "quantities": {key: _numbers(value) for key, value in outcome.quantities.items()},
        "notes": outcome.notes,
        "arrays": outcome.arrays,
    }
    write_json(folder / f"{name}.json", content)
    return [folder / f"{name}.csv", folder / f"{name}.json"]


def write_summary(
    folder: Path, setting: Setting, lines: list[Line], facts: Mapping[str, Any]
) -> list[Path]:
    """Write the table of bars and the summary; return their paths."""
    write_text(folder / "table.md", markdown(lines))
    write_json(
        folder / "summary.json",
        {
            "version": __version__,
            "realizations": setting.realizations,
            "slots": setting.slots,
            "first_seed": setting.first_seed,
            "changed_settings": setting.changes,
            **facts,
            "table": [
                {
                    "figure": line.bar.figure,
                    "quantity": line.bar.text,
                    **_numbers(line.measured),
                    "paper": line.bar.paper,
                    "bar": line.bar.range,
                    "verdict": line.verdict,
                    "note": line.note,
                }
                for line in lines
            ],
        },
    )
    return [folder / "table.md", folder / "summary.json"]


def write_json(path: Path, content: Any) -> None:
    write_text(path, json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    with atomic_text(path) as file:
        file.write(text)


def _row(row: Row) -> dict[str, Any]:
    return {**dict(zip(COLUMNS, row[:-1], strict=False)), **_numbers(row.estimate)}


def _numbers(measured: Estimate) -> dict[str, float | int | None]:
    error = None if isnan(measured.standard_error) else measured.standard_error
    return {
        "mean": measured.mean,
        "standard_error": error,
        "realizations": measured.realizations,
    }
