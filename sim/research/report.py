"""The written results of a reproduction: numbers as CSV and JSON, the table of bars, a summary.

The table has one line per quantity that a faithful reproduction must meet, and some lines without
a bar. Bars are for the mean over 48 realizations of 15300 slots with the settings of Table 1. A
reproduction of another size, or with other settings, is not comparable.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass
from io import StringIO
from math import inf, isnan
from pathlib import Path
from typing import Any, Literal, TypeAlias

from macontrol import __version__
from macontrol.config.files.atomic_file import atomic_text
from macontrol.sim.research.figures.setting import Setting
from macontrol.sim.research.outcome import Estimate, Outcome, Row

FULL_REALIZATIONS = 48
FULL_SLOTS = 15300
OPEN_CHOICES = frozenset(
    {
        "channel.sub_ray_phases",
        "drift.shadow_reversion",
        "drift.change_gain_retention",
        "survey.variance_floor",
    }
)
"""Settings that the paper leaves open: with any value a reproduction is comparable."""
LEVEL_ERRORS = 2.0
"""A lead of fewer standard errors is level."""

Verdict: TypeAlias = Literal["pass", "level", "MISS", "not comparable", "–"]


@dataclass(frozen=True)
class Bar:
    """A quantity of a figure, the paper's value as text, and the required range."""

    figure: str
    quantity: str
    text: str
    paper: str
    low: float = -inf
    high: float = inf
    shown: str = ".3g"
    unit: str = ""

    @property
    def has_range(self) -> bool:
        return self.low > -inf or self.high < inf

    @property
    def is_lead(self) -> bool:
        """Whether the bar is a comparison of two: any lead above 0."""
        return self.low == 0 and self.high == inf

    @property
    def range(self) -> str:
        """The range as text."""
        if not self.has_range:
            return "reported"
        if self.is_lead:
            return "leads"
        low, high = (f"{end:{self.shown}}" for end in (self.low, self.high))
        return f"≥ {low}" if self.high == inf else f"{low} – {high}"

    def verdict(self, measured: Estimate) -> Verdict:
        """Whether the mean is within the range; "–" without a range.

        A lead in either direction counts only beyond LEVEL_ERRORS standard errors.
        """
        if not self.has_range:
            return "–"
        mean, error, _ = measured
        if self.is_lead and not isnan(mean) and not abs(mean) > LEVEL_ERRORS * error:
            return "level"
        return "pass" if self.low <= mean <= self.high else "MISS"


# Figure, quantity, text, the paper's value, low and high end of the range, format, unit.
_BARS = """\
main | variation per slot | V_T/T | ≈ 0.10 | 0.09 | 0.12 | .3f
main | maximizer step | drift of the per-slot maximizer, jumps between peaks included | 0.010 λ | -inf | inf | .4f | λ
main | maximizer step without jumps | drift of the per-slot maximizer, steps of at most a stroke | 0.010 λ | -inf | inf | .4f | λ
main | switches | MoveUCB N_sw | 298 | 270 | 345 | .0f
main | travel | MoveUCB travel | 99 λ | 85 | 125 | .0f | λ
main | transit_share | MoveUCB transit share | 10 % | 0.08 | 0.13 | .1%
main | GP-UCB regret ratio | GP-UCB regret / MoveUCB regret | 1.55 | 1.35 | inf | .2f
main | GP-UCB travel ratio | GP-UCB travel / MoveUCB travel | ≈ 2 | 1.6 | 2.3 | .2f
main | regret | MoveUCB regret per slot | 0.36 (implied) | 0.33 | 0.52 | .3f
ablation | (ii) switches | (ii) global: N_sw | 4778 | 4204.64 | 5351.36 | .0f
ablation | (iii) switches | (iii) + cost: N_sw | 2770 | 2437.6 | 3102.4 | .0f
ablation | switches at widest margin | Δ = 0.5 σ_f: N_sw | 51 | 40 | 65 | .0f
ablation | travel saved | travel saved by η = 2 against η = 0 | 40 % | 0.30 | 0.50 | .0%
movement-cost | travel at c_e = 66 | c_e = 66: MoveUCB travel | 58 λ | 50 | 78 | .0f | λ
ablation | cost term's regret drop at c_e = 30 | (ii)→(iii) regret drop at c_e = 30 | 0.417 | 0.3 | 0.5 | .3f
confidence | transit share at beta = 5 | β = 5: MoveUCB transit share | approaching half | 0.45 | 0.60 | .0%
variation | continuous exponent | V_T growth exponent, continuous | 1.02 | 0.92 | 1.12 | .2f
variation | piecewise exponent | V_T growth exponent, piecewise S = ⌈√T⌉ | 0.48 | 0.38 | 0.58 | .2f
kernel | physics lead | kernel RMSE: Physics' lead over the next of four | lowest of four | 0 | inf | .2f
kernel | paper's lengths | kernel RMSE: Physics' lead, the SE lengths being the paper's | lowest of four | -inf | inf | .2f
variation | lead from S = 15 | piecewise S = 15 … 300: least regret lead of MoveUCB | leads at every S | 0 | inf | .3f
variation | lead at S = 5 | piecewise S = 5: regret lead of MoveUCB | leads at every S | -inf | inf | .3f
main | regret lead | ranking, both scenarios: MoveUCB's least regret lead | lowest regret | 0 | inf | .3f
main | travel lead | ranking, both scenarios: MoveUCB's least travel lead among movers | least travel | 0 | inf | .1f | λ
movement-cost | lead at c_e = 0.3 | c_e = 0.3: regret lead over the closest mover | 0.20 | -inf | inf | .2f
movement-cost | lead at c_e = 66 | c_e = 66: regret lead over the closest mover | 0.51 | -inf | inf | .2f
ablation | cost term's regret drop at c_e = 0.3 | (ii)→(iii) regret drop at c_e = 0.3 | 0.054 | -inf | inf | .3f
ablation | regret higher at widest margin | Δ = 0.5 σ_f regrets more than 0.1 σ_f: share of realizations | 42 of 48 | -inf | inf | .0%
offset | gain continuous 0 | share of the gap between Fixed and the oracle won by reward.offset, continuous, 0 dB | – | -inf | inf | .0%
offset | gain continuous 10 | same, continuous, 10 dB | – | -inf | inf | .0%
offset | gain continuous 20 | same, continuous, 20 dB | – | -inf | inf | .0%
offset | gain continuous 30 | same, continuous, 30 dB | – | -inf | inf | .0%
offset | gain continuous 40 | same, continuous, 40 dB | – | -inf | inf | .0%
offset | gain piecewise 0 | same, S = 10, 0 dB | – | -inf | inf | .0%
offset | gain piecewise 10 | same, S = 10, 10 dB | – | -inf | inf | .0%
offset | gain piecewise 20 | same, S = 10, 20 dB | – | -inf | inf | .0%
offset | gain piecewise 30 | same, S = 10, 30 dB | – | -inf | inf | .0%
offset | gain piecewise 40 | same, S = 10, 40 dB | – | -inf | inf | .0%
"""  # noqa: E501


def _read_bar(line: str) -> Bar:
    figure, quantity, text, paper, low, high, shown, *unit = line.split(" | ")
    unit_text = "".join(f" {name}" for name in unit)
    return Bar(figure, quantity, text, paper, float(low), float(high), shown, unit_text)


BARS = tuple(_read_bar(line) for line in _BARS.splitlines())


@dataclass(frozen=True)
class Line:
    """A line of the table."""

    bar: Bar
    measured: Estimate
    note: str
    comparable: bool = True
    """Whether the reproduction has the paper's size and settings."""

    @property
    def verdict(self) -> Verdict:
        if self.bar.has_range and not self.comparable:
            return "not comparable"
        return self.bar.verdict(self.measured)

    @property
    def value(self) -> str:
        """The mean ± its standard error as text."""
        bar, (mean, error, _) = self.bar, self.measured
        # Whole numbers get one more digit if the error would show as 0.
        finer = ".1f" if bar.shown == ".0f" and error < 0.5 else bar.shown
        spread = "" if isnan(error) else f" ± {error:{finer}}"
        return f"{mean:{bar.shown}}{spread}{bar.unit}"


def is_comparable(setting: Setting) -> bool:
    """Whether a reproduction has the paper's size and settings, apart from open choices."""
    full = (setting.realizations, setting.slots) == (FULL_REALIZATIONS, FULL_SLOTS)
    return full and not setting.changes.keys() - OPEN_CHOICES


def table(outcomes: Mapping[str, Outcome], *, comparable: bool = True) -> list[Line]:
    """The lines of the figures that were computed."""
    return [
        Line(bar, outcome.quantities[bar.quantity], note, comparable)
        for bar in BARS
        if (outcome := outcomes.get(bar.figure)) and bar.quantity in outcome.quantities
        for note in [str(outcome.notes.get(bar.quantity, ""))]
    ]


def markdown(lines: list[Line]) -> str:
    """The table in Markdown."""
    head = "| quantity | measured ± s.e. | paper | bar | |\n|---|---|---|---|---|\n"
    return head + "".join(
        f"| {line.bar.text}{f' ({line.note})' if line.note else ''} | {line.value} | "
        f"{line.bar.paper} | {line.bar.range} | {line.verdict} |\n"
        for line in lines
    )


def write_numbers(folder: Path, name: str, outcome: Outcome) -> list[Path]:
    """Write the numbers of a figure; return the paths NAME.csv and NAME.json."""
    rows = [{**row._asdict(), **_numbers(row.estimate)} for row in outcome.rows]
    for row in rows:
        del row["estimate"]
    text = StringIO()
    writer = csv.DictWriter(text, (*Row._fields[:-1], *Estimate._fields), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    content = {
        "figure": name,
        "rows": rows,
        "quantities": {key: _numbers(value) for key, value in outcome.quantities.items()},
        "notes": outcome.notes,
        "arrays": outcome.arrays,
    }
    return [
        _write(folder / f"{name}.csv", text.getvalue()),
        _write(folder / f"{name}.json", _json(content)),
    ]


def write_summary(
    folder: Path, setting: Setting, lines: list[Line], facts: Mapping[str, Any]
) -> list[Path]:
    """Write the table of bars and the summary; return their paths."""
    content = {
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
    }
    return [
        _write(folder / "table.md", markdown(lines)),
        _write(folder / "summary.json", _json(content)),
    ]


def _json(content: Any) -> str:
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _write(path: Path, text: str) -> Path:
    with atomic_text(path) as file:
        file.write(text)
    return path


def _numbers(measured: Estimate) -> dict[str, Any]:
    error = None if isnan(measured.standard_error) else measured.standard_error
    return {**measured._asdict(), "standard_error": error}
