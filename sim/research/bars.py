"""The table of bars: the measured value, the paper's value, and whether the bar is met.

There is one line per quantity that a faithful reproduction must meet, and some lines without a
bar. Bars are for the mean over 48 realizations of 15300 slots with the settings of Table 1. A
reproduction of another size, or with other settings, is not comparable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isnan
from typing import Literal, TypeAlias

from macontrol.sim.research.figures.outcome import Outcome
from macontrol.sim.research.figures.setting import Setting
from macontrol.sim.research.statistics import Estimate

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
    def range(self) -> str:
        """The range as text."""
        low, high = (f"{end:{self.shown}}" for end in (self.low, self.high))
        if not self.has_range:
            return "reported"
        if self.high == inf:
            return "leads" if self.low == 0 else f"≥ {low}"
        return f"{low} – {high}"

    @property
    def is_lead(self) -> bool:
        """Whether the bar is a comparison of two: any lead above 0."""
        return self.low == 0 and self.high == inf

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


BARS: tuple[Bar, ...] = (
    Bar("main", "variation per slot", "V_T/T", "≈ 0.10", 0.09, 0.12, ".3f"),
    Bar(
        "main",
        "maximizer step",
        "drift of the per-slot maximizer, jumps between peaks included",
        "0.010 λ",
        shown=".4f",
        unit=" λ",
    ),
    Bar(
        "main",
        "maximizer step without jumps",
        "drift of the per-slot maximizer, steps of at most a stroke",
        "0.010 λ",
        shown=".4f",
        unit=" λ",
    ),
    Bar("main", "switches", "MoveUCB N_sw", "298", 270, 345, ".0f"),
    Bar("main", "travel", "MoveUCB travel", "99 λ", 85, 125, ".0f", " λ"),
    Bar("main", "transit_share", "MoveUCB transit share", "10 %", 0.08, 0.13, ".1%"),
    Bar("main", "GP-UCB regret ratio", "GP-UCB regret / MoveUCB regret", "1.55", 1.35, inf, ".2f"),
    Bar("main", "GP-UCB travel ratio", "GP-UCB travel / MoveUCB travel", "≈ 2", 1.6, 2.3, ".2f"),
    Bar("main", "regret", "MoveUCB regret per slot", "0.36 (implied)", 0.33, 0.52, ".3f"),
    Bar("ablation", "(ii) switches", "(ii) global: N_sw", "4778", 0.88 * 4778, 1.12 * 4778, ".0f"),
    Bar(
        "ablation", "(iii) switches", "(iii) + cost: N_sw", "2770", 0.88 * 2770, 1.12 * 2770, ".0f"
    ),
    Bar("ablation", "switches at widest margin", "Δ = 0.5 σ_f: N_sw", "51", 40, 65, ".0f"),
    Bar(
        "ablation", "travel saved", "travel saved by η = 2 against η = 0", "40 %", 0.30, 0.50, ".0%"
    ),
    Bar(
        "movement-cost",
        "travel at c_e = 66",
        "c_e = 66: MoveUCB travel",
        "58 λ",
        50,
        78,
        ".0f",
        " λ",
    ),
    Bar(
        "ablation",
        "cost term's regret drop at c_e = 30",
        "(ii)→(iii) regret drop at c_e = 30",
        "0.417",
        0.3,
        0.5,
        ".3f",
    ),
    Bar(
        "confidence",
        "transit share at beta = 5",
        "β = 5: MoveUCB transit share",
        "approaching half",
        0.45,
        0.60,
        ".0%",
    ),
    Bar(
        "variation",
        "continuous exponent",
        "V_T growth exponent, continuous",
        "1.02",
        0.92,
        1.12,
        ".2f",
    ),
    Bar(
        "variation",
        "piecewise exponent",
        "V_T growth exponent, piecewise S = ⌈√T⌉",
        "0.48",
        0.38,
        0.58,
        ".2f",
    ),
    Bar(
        "kernel",
        "physics lead",
        "kernel RMSE: Physics' lead over the next of four",
        "lowest of four",
        0.0,
        inf,
        ".2f",
    ),
    Bar(
        "kernel",
        "paper's lengths",
        "kernel RMSE: Physics' lead, the SE lengths being the paper's",
        "lowest of four",
        shown=".2f",
    ),
    Bar(
        "variation",
        "lead from S = 15",
        "piecewise S = 15 … 300: least regret lead of MoveUCB",
        "leads at every S",
        0.0,
        inf,
        ".3f",
    ),
    Bar(
        "variation",
        "lead at S = 5",
        "piecewise S = 5: regret lead of MoveUCB",
        "leads at every S",
        shown=".3f",
    ),
    Bar(
        "main",
        "regret lead",
        "ranking, both scenarios: MoveUCB's least regret lead",
        "lowest regret",
        0.0,
        inf,
        ".3f",
    ),
    Bar(
        "main",
        "travel lead",
        "ranking, both scenarios: MoveUCB's least travel lead among movers",
        "least travel",
        0.0,
        inf,
        ".1f",
        " λ",
    ),
    Bar(
        "movement-cost",
        "lead at c_e = 0.3",
        "c_e = 0.3: regret lead over the closest mover",
        "0.20",
        shown=".2f",
    ),
    Bar(
        "movement-cost",
        "lead at c_e = 66",
        "c_e = 66: regret lead over the closest mover",
        "0.51",
        shown=".2f",
    ),
    Bar(
        "ablation",
        "cost term's regret drop at c_e = 0.3",
        "(ii)→(iii) regret drop at c_e = 0.3",
        "0.054",
        shown=".3f",
    ),
    Bar(
        "ablation",
        "regret higher at widest margin",
        "Δ = 0.5 σ_f regrets more than 0.1 σ_f: share of realizations",
        "42 of 48",
        shown=".0%",
    ),
)


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
        spread = "" if isnan(error) else f" ± {error:{_finer(bar.shown, error)}}"
        return f"{mean:{bar.shown}}{spread}{bar.unit}"


def _finer(shown: str, error: float) -> str:
    """Whole numbers get one more digit if the error would show as 0."""
    return ".1f" if shown == ".0f" and error < 0.5 else shown


def is_comparable(setting: Setting) -> bool:
    """Whether a reproduction has the paper's size and settings, apart from open choices."""
    full = (setting.realizations, setting.slots) == (FULL_REALIZATIONS, FULL_SLOTS)
    return full and not setting.changes.keys() - OPEN_CHOICES


def table(outcomes: Mapping[str, Outcome], *, comparable: bool = True) -> list[Line]:
    """The lines of the figures that were computed."""
    lines = []
    for bar in BARS:
        outcome = outcomes.get(bar.figure)
        if outcome is not None and bar.quantity in outcome.quantities:
            note = str(outcome.notes.get(bar.quantity, ""))
            lines.append(Line(bar, outcome.quantities[bar.quantity], note, comparable))
    return lines


def markdown(lines: list[Line]) -> str:
    """The table in Markdown."""
    head = "| quantity | measured ± s.e. | paper | bar | |\n|---|---|---|---|---|\n"
    return head + "".join(
        f"| {line.bar.text}{f' ({line.note})' if line.note else ''} | {line.value} | "
        f"{line.bar.paper} | {line.bar.range} | {line.verdict} |\n"
        for line in lines
    )
