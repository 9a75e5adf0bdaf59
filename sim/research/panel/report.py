"""The tables of a panel in Markdown, from the numbers of its outcome."""

from __future__ import annotations

from math import isnan

from macontrol import __version__
from macontrol.sim.research.outcome import CHANGED_SETTINGS, Estimate, Outcome
from macontrol.sim.research.panel.cells import AVERAGED
from macontrol.sim.research.panel.contenders import REFERENCE
from macontrol.sim.research.panel.measure import AVERAGE, QUANTITIES, TOTAL

HIGHEST = 1.03
"""A cell counts as lost if its regret ratio is above this by more than two standard errors."""
_Key = tuple[str, str, str]


class Tables:
    """The ratios of an outcome, by group, cell and policy."""

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome
        self._found: dict[_Key, dict[str, Estimate]] = {}
        self._variation: dict[tuple[str, str], float | str] = {}
        for row in outcome.rows:
            key = (row.panel, row.scenario, row.series)
            self._found.setdefault(key, {})[row.quantity] = row.estimate
            self._variation[row.panel, row.scenario] = row.value
        self.policies = list(dict.fromkeys(row.series for row in outcome.rows))
        self.cells = [key for key in self._variation if key[0] != AVERAGE]
        self.averages = [cell for group, cell in self._variation if group == AVERAGE]
        if TOTAL in self.averages:  # first
            self.averages.insert(0, self.averages.pop(self.averages.index(TOTAL)))

    def variation(self, group: str, cell: str) -> float:
        """V_T/T of a cell."""
        return float(self._variation[group, cell])

    def ratio(self, group: str, cell: str, policy: str, quantity: str) -> Estimate | None:
        return self._found.get((group, cell, policy), {}).get(f"{quantity} ratio")

    def average(self, average: str, policy: str, quantity: str) -> Estimate | None:
        return self.ratio(AVERAGE, average, policy, quantity)

    def members(self, average: str) -> list[tuple[str, str]]:
        """The cells of an average."""
        groups = AVERAGED if average == TOTAL else (average,)
        return [(group, cell) for group, cell in self.cells if group in groups]

    def lost(self, policy: str, average: str) -> list[str]:
        """The cells whose regret is higher than the reference's, beyond two standard errors."""
        return [
            cell
            for group, cell in self.members(average)
            if (ratio := self.ratio(group, cell, policy, "regret")) is not None
            and ratio.mean - 2 * ratio.standard_error > HIGHEST
        ]

    def tally(self, policy: str, average: str) -> str:
        """How many of how many cells are lost; unknown from one realization, without an error."""
        members = self.members(average)
        ratios = [self.ratio(group, cell, policy, "regret") for group, cell in members]
        if any(ratio is not None and isnan(ratio.standard_error) for ratio in ratios):
            return "unknown"
        return f"{len(self.lost(policy, average))} of {len(members)}"

    def markdown(self) -> str:
        groups = dict.fromkeys(group for group, _ in self.cells)
        return "\n".join(
            [
                *self._head(),
                *self._averages(),
                *(line for group in groups for line in self._group(group)),
            ]
        )

    def _head(self) -> list[str]:
        notes = self._outcome.notes
        policies = [
            f"- {name}: `{notes[f'policy {name}']}`"
            for name in self.policies
            if notes[f"policy {name}"] != name
        ]
        changed = notes.get(CHANGED_SETTINGS)
        if changed is not None:
            policies.insert(0, f"- changed everywhere: {changed}")
        return [
            "# The panel of worlds",
            "",
            f"macontrol {__version__}, seeds from {notes['first seed']}. Regret / travel, relative "
            f"to {REFERENCE} in the same realizations: ratios of means, ± standard error by the "
            f"delta method. Lost: regret above {HIGHEST:g} by more than two standard errors.",
            "",
            *policies,
            "",
        ]

    def _averages(self) -> list[str]:
        lines = _header(["policy", *self.averages])
        for policy in self.policies:
            texts = [
                f"{self._both(AVERAGE, average, policy)} (lost: {self.tally(policy, average)})"
                for average in self.averages
            ]
            lines.append(f"| {policy} | {' | '.join(texts)} |")
        return ["## Averages", "", *lines, ""]

    def _group(self, group: str) -> list[str]:
        others = [name for name in self.policies if name != REFERENCE]
        lines = _header(["cell", "V_T/T", "worlds", f"{REFERENCE} (absolute)", *others])
        for own, cell in self.cells:
            if own != group:
                continue
            absolute = self._found[group, cell, REFERENCE]
            regret, travel = (absolute[quantity] for quantity in QUANTITIES)
            texts = [
                cell,
                f"{self.variation(group, cell):.3f}",
                f"{regret.realizations}",
                f"{regret.mean:.3f} / {travel.mean:.0f} λ",
                *(self._both(group, cell, policy) for policy in others),
            ]
            lines.append(f"| {' | '.join(texts)} |")
        return [f"## {group}", "", *lines, ""]

    def _both(self, group: str, cell: str, policy: str) -> str:
        return " / ".join(
            spelled(self.ratio(group, cell, policy, quantity)) for quantity in QUANTITIES
        )


def spelled(ratio: Estimate | None) -> str:
    """A ratio with its standard error."""
    if ratio is None:
        return "–"
    error = "" if isnan(ratio.standard_error) else f" ± {ratio.standard_error:.2f}"
    return f"{ratio.mean:.2f}{error}"


def _header(names: list[str]) -> list[str]:
    return [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
