"""`macontrol reproduce panel`: its options, and how its outcome is shown and written."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from macontrol.config import Config, differing_keys, load_config
from macontrol.config.files.atomic_file import atomic_text
from macontrol.config.model.errors import UsageError
from macontrol.config.model.suggestion import did_you_mean, shortened
from macontrol.sim.research.campaign import Results
from macontrol.sim.research.outcome import CHANGED_SETTINGS
from macontrol.sim.research.panel.cells import CELLS, GROUPS, Cell, quick_cells
from macontrol.sim.research.panel.contenders import REFERENCE, contenders
from macontrol.sim.research.panel.measure import QUANTITIES, Panel
from macontrol.sim.research.panel.report import HIGHEST, Tables, spelled
from macontrol.sim.research.report import write_numbers
from macontrol.sim.world.ieee import quadriga
from macontrol.sim.world.worlds import PAPER

NAME = "panel"
QUICK_REALIZATIONS = 6
REPORTING_SEED, CHOOSING_SEED = 1, 10_001
_DEFAULT_GROUPS = ("paper", "ieee")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    panel = parser.add_argument_group("the panel")
    panel.add_argument(
        "--quick",
        action="store_true",
        help=f"12 cells with {QUICK_REALIZATIONS} realizations each",
    )
    panel.add_argument(
        "--cells",
        metavar="GROUP,…",
        help=f"{', '.join(GROUPS)}, or names of cells as in 'ieee-b, 0.015' with a semicolon "
        f"between them (default: {','.join(_DEFAULT_GROUPS)})",
    )
    panel.add_argument(
        "--policies",
        metavar="NAME,…",
        help="POLICY, POLICY:VARIANT or MODULE:NAME (default: all, with their variants); "
        f"{REFERENCE} always runs",
    )
    panel.add_argument(
        "--variant",
        action="append",
        default=[],
        metavar="SETTINGS",
        help="one more policy: 'LABEL=POLICY SECTION.KEY=VALUE …'; can be repeated",
    )
    panel.add_argument(
        "--choosing",
        action="store_true",
        help=f"the seeds from {CHOOSING_SEED}, to choose settings with; those from "
        f"{REPORTING_SEED} are to report them",
    )


def refuse_contradictions(arguments: argparse.Namespace) -> None:
    """Refuse options of the panel for other figures, and those that the panel has not."""
    if arguments.figure == NAME:
        if arguments.strict:
            raise UsageError("--strict: the panel has no bars", "leave it out")
        if arguments.choosing and arguments.seed is not None:
            raise UsageError("--choosing and --seed both choose the seeds", "give one of them")
        if arguments.quick and arguments.cells is not None:
            raise UsageError(
                "--quick and --cells both choose the cells", "give --realizations for a short run"
            )
        return
    for option in ("quick", "cells", "policies", "variant", "choosing"):
        if getattr(arguments, option):
            raise UsageError(f"--{option} is an option of the panel", "leave it out")


def panel_of(arguments: argparse.Namespace, base: Config) -> Panel:
    """The panel that the options describe."""
    cells = quick_cells() if arguments.quick else chosen_cells(arguments.cells)
    realizations = arguments.realizations or (QUICK_REALIZATIONS if arguments.quick else None)
    cells = [
        replace(
            cell,
            slots=arguments.slots or cell.slots,
            realizations=realizations or cell.realizations,
        )
        for cell in cells
    ]
    if any(cell.world.name != PAPER for cell in cells):
        try:  # a missing library is reported before anything is computed
            quadriga()
        except UsageError as error:
            error.fix += f"; or give --cells {PAPER} for the paper's worlds only"
            raise
    names = None if arguments.policies is None else _split(arguments.policies, ",")
    seed = CHOOSING_SEED if arguments.choosing else REPORTING_SEED
    return Panel(
        base,
        tuple(cells),
        tuple(contenders(names, arguments.variant, base)),
        seed if arguments.seed is None else arguments.seed,
    )


def chosen_cells(text: str | None) -> list[Cell]:
    """The cells of groups, with commas between them, or of names, with semicolons."""
    if text is None:
        return [cell for cell in CELLS if cell.group in _DEFAULT_GROUPS]
    names = [cell.name for cell in CELLS]
    words = _split(text, ";") if ";" in text or text in names else _split(text, ",")
    for word in words:
        if word not in names and word not in GROUPS:
            raise UsageError(
                f"the panel has no cells {shortened(word)}", did_you_mean(word, [*GROUPS, *names])
            )
    found = [cell for cell in CELLS if cell.group in words]
    # A cell in two groups, as "piecewise, S = 5", is one cell by its name.
    first = {cell.name: cell for cell in reversed(CELLS)}
    found += [first[word] for word in words if word in first and first[word] not in found]
    return sorted(found, key=CELLS.index)


def write(arguments: argparse.Namespace, panel: Panel, results: Results, console: Console) -> None:
    """Show the averages; write the numbers, the tables and the page of plots."""
    outcome = panel.measure(results)
    changed = differing_keys(panel.base, load_config())
    if changed:
        settings = (f"{key} = {value}" for key, (value, _) in changed.items())
        outcome.notes[CHANGED_SETTINGS] = ", ".join(settings)
    tables = Tables(outcome)
    written = write_numbers(arguments.out, NAME, outcome)
    with atomic_text(arguments.out / f"{NAME}.md") as file:
        file.write(tables.markdown() + "\n")
    written.append(arguments.out / f"{NAME}.md")
    if not arguments.no_plots:
        from macontrol.sim.research.plots.figures import draw

        written += draw(arguments.out, NAME, outcome)
    _show(console, panel, tables)
    files = ", ".join(path.name for path in written)
    console.print(f"Written to {arguments.out}: {files}", markup=False, highlight=False)


def _show(console: Console, panel: Panel, tables: Tables) -> None:
    title = f"{len(panel.cells)} cells, seeds from {panel.first_seed}, relative to {REFERENCE}"
    shown = Table(title=title, title_justify="left")
    for name in ("cells", "policy"):
        shown.add_column(name)
    for name in ("regret", "travel", "lost"):
        shown.add_column(name, justify="right", no_wrap=True)
    for average in tables.averages:
        shown.add_section()
        for number, policy in enumerate(tables.policies):
            ratios = [spelled(tables.average(average, policy, each)) for each in QUANTITIES]
            first = "" if number else average
            shown.add_row(first, escape(policy), *ratios, tables.tally(policy, average))
    console.print(shown)
    console.print(
        "Means over cells of the ratio of means, ± standard error (paired by seed, delta method). "
        f"Lost: regret above {HIGHEST:g} by more than two standard errors.",
        highlight=False,
    )


def _split(text: str, mark: str) -> Sequence[str]:
    words = [word.strip() for word in text.split(mark) if word.strip()]
    if not words:
        raise UsageError(f"{shortened(text)} names nothing", "name at least one")
    return words
