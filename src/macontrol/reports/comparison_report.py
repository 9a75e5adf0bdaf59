"""A comparison of runs: as data, and as a page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from macontrol.reports.comparison import HOW, Difference, Entry
from macontrol.reports.drawing import Axis, Plot, block_means, block_slots, extremes
from macontrol.reports.figures import RATE, rail_axes, seconds
from macontrol.reports.page import page, paragraph, section, table
from macontrol.reports.quantities import duration_text, gain_text
from macontrol.reports.world import World

LOOKS = ("run", "other", "third", "fixed", "best")
FIGURES = (
    "policy",
    "backend",
    "seed",
    "started",
    "length",
    "slots",
    "slots missed",
    "mean reward (bit/s/Hz)",
    "gain over a fixed antenna",
    "gain over the reference",
    "travel (wavelengths)",
    "switches of the target",
    "slots without a reward",
    "faults",
)


def figures_of(entry: Entry) -> tuple[str, ...]:
    """The figures of a run as text, in the order of FIGURES."""
    recorded, facts, world = entry.recorded, entry.recorded.facts, entry.world
    gain = world.gain if isinstance(world, World) else None
    return (
        recorded.header.policy,
        recorded.header.backend,
        str(recorded.run.seed),
        f"{recorded.header.started:%Y-%m-%d %H:%M:%S}",
        duration_text(facts.duration_s),
        str(facts.slots),
        str(facts.missed),
        _mean_text(entry),
        "unknown" if gain is None else f"{gain:+.1%}",
        gain_text(recorded.gain_over_reference),
        f"{facts.travel:.2f}",
        str(facts.switches),
        str(facts.slots - facts.rewards),
        str(facts.faults),
    )


def _mean_text(entry: Entry) -> str:
    if entry.recorded.facts.mean_reward is None:
        return "unknown"
    error = entry.reward.error
    return f"{entry.reward.value:.4f}" + ("" if error is None else f" ± {error:.4f}")


def as_data(entries: Sequence[Entry], found: Sequence[Difference]) -> dict[str, Any]:
    """The comparison for `--json`."""
    return {
        "method": HOW,
        "runs": [_run_data(entry) for entry in entries],
        "differences": [_difference_data(one) for one in found],
    }


def _run_data(entry: Entry) -> dict[str, Any]:
    facts, world = entry.recorded.facts, entry.world
    is_known = isinstance(world, World)
    beside = entry.recorded.gain_over_reference
    return {
        "file": str(entry.recorded.path),
        "policy": entry.recorded.header.policy,
        "backend": entry.recorded.header.backend,
        "seed": entry.recorded.run.seed,
        "slots": facts.slots,
        "duration_s": facts.duration_s,
        "mean_reward": facts.mean_reward,
        "standard_error": entry.reward.error,
        "gain_over_fixed": world.gain if isinstance(world, World) else None,
        "gain_unknown_because": None if is_known else world,
        "gain_over_reference_db": None if beside is None else beside.value,
        "gain_over_reference_error_db": None if beside is None else beside.error,
        "travel": facts.travel,
        "switches": facts.switches,
        "slots_missed": facts.missed,
        "faults": facts.faults,
    }


def _difference_data(one: Difference) -> dict[str, Any]:
    is_known = np.isfinite(one.mean.value)
    return {
        "run": one.run,
        "first": one.first,
        "paired": one.paired,
        "basis": one.basis,
        "difference": one.mean.value if is_known else None,
        "standard_error": one.mean.error,
        "slots": one.mean.count,
        "is_level": one.mean.is_level,
        "error_is_too_small": one.mean.correlated,
        "verdict": one.verdict,
        "settings": {key: list(values) for key, values in one.settings.items()},
    }


def comparison_page(entries: Sequence[Entry], found: Sequence[Difference]) -> str:
    """The comparison as HTML."""
    names = [entry.name for entry in entries]
    rows = list(zip(FIGURES, *map(figures_of, entries), strict=True))
    numbers = range(1, len(entries) + 1)
    lead = " ".join(sentence(one) for one in found)
    return page(
        f"Comparison of {len(entries)} runs",
        [
            f"<h1>{escape(' · '.join(names))}</h1>",
            paragraph(lead, "lead"),
            paragraph(HOW, "soft"),
            section("Side by side", table(("", *names), rows, numbers)),
            _differences(found),
            section("Reward over time", _rewards(entries), note=_note(entries)),
            section("The antennas on the rail", _positions(entries)),
            _settings(found),
        ],
    )


def sentence(one: Difference) -> str:
    """The difference as a sentence."""
    return f"{one.run}, compared with {one.first}: {one.verdict.removesuffix('.')}."


def _differences(found: Sequence[Difference]) -> str:
    rows = [(f"{one.run} − {one.first}", _signed(one), one.verdict, one.basis) for one in found]
    heads = ("runs", f"difference ± standard error ({RATE})", "outcome", "basis")
    plots = [_difference_plot(one) for one in found if one.paired]
    many = f'<div class="many">{"".join(plots)}</div>' if plots else ""
    return section("Differences", table(heads, rows, (1,)), many)


def _signed(one: Difference) -> str:
    error = "" if one.mean.error is None else f" ± {one.mean.error:.4f}"
    return f"{one.mean.value:+.4f}{error}"


def _difference_plot(one: Difference) -> str:
    at, values = block_means([one.slots.astype(float), one.series])
    plot = Plot(
        Axis(float(at[0]), float(at[-1]), "slot"), Axis.around(RATE, values, zero=True), height=170
    )
    plot.level(0.0, "mark")
    plot.line(at, values, "other")
    plot.level(one.mean.value, "limit", f"mean {one.mean.value:+.3f}")
    title = escape(f"{one.run} − {one.first}")
    return f"<figure><h3>{title}</h3>{plot.legend()}{plot.html()}</figure>"


def _note(entries: Sequence[Entry]) -> str:
    slots = max(block_slots(entry.recorded.length) for entry in entries)
    return f"Means over up to {slots} slots, for the drawing."


def _time_axis(entries: Sequence[Entry]) -> Axis:
    return Axis(0.0, max(entry.recorded.facts.duration_s for entry in entries), "time (s)")


def _rewards(entries: Sequence[Entry]) -> str:
    curves = [
        block_means([seconds(entry.recorded), entry.recorded.run["reward"]]) for entry in entries
    ]
    plot = Plot(_time_axis(entries), Axis.around(RATE, *(y for _, y in curves), zero=True))
    for number, (entry, (x, y)) in enumerate(zip(entries, curves, strict=True)):
        plot.line(x, y, LOOKS[number % len(LOOKS)], entry.name)
    return f"<figure>{plot.legend()}{plot.html()}</figure>"


def _positions(entries: Sequence[Entry]) -> str:
    longest = max(entries, key=lambda entry: entry.recorded.config.physical.region_length)
    rail, rail_mm = rail_axes(longest.recorded.config)
    plot = Plot(_time_axis(entries), rail, right=rail_mm, height=260)
    for number, entry in enumerate(entries):
        run = entry.recorded.run
        curve = extremes(seconds(entry.recorded), run["position"])
        plot.line(*curve, LOOKS[number % len(LOOKS)], entry.name)
    return f"<figure>{plot.legend()}{plot.html()}</figure>"


def _settings(found: Sequence[Difference]) -> str:
    parts = []
    for one in found:
        rows = [(key, str(a), str(b)) for key, (a, b) in one.settings.items()]
        heads = ("setting", one.first, one.run)
        parts.append(table(heads, rows) if rows else paragraph(f"{one.run}: the same settings."))
    return section("Settings that differ", *parts)
