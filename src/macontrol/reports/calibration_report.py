"""The report of a calibration: what was found, what it means, and what a run should use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from math import isfinite, nan

from macontrol.config import Config
from macontrol.config.checks.site import bench_text
from macontrol.controller.survey.calibration.advice import interval_text
from macontrol.controller.survey.calibration.estimate import Estimate, root
from macontrol.controller.survey.calibration.explained import sector_of, spread_of
from macontrol.controller.survey.calibration.findings import DRIFT_SLOTS
from macontrol.controller.survey.calibration.result import Calibration
from macontrol.reports import calibration_figures as figures
from macontrol.reports.page import page, paragraph, section, table, tiles

RATE = "bit/s/Hz"
_NATS = (
    "Held-out density: log p of rewards on stretches of the rail that the fit has not seen, with "
    "parameters from other walks, in nats per sample. A difference is paired by block of walks."
)


@dataclass(frozen=True)
class Quantity:
    """One line of the table."""

    name: str
    estimate: Estimate
    unit: str
    meaning: str

    def texts(self) -> tuple[str, str]:
        """The value, and the interval."""
        found = self.estimate
        value = f"{found.value:.4g}" if isfinite(found.value) else "unknown"
        if found.value > found.low and not isfinite(found.value):
            value = f"more than {found.low:.3g}"
        ends = [f"{end:.3g}" if isfinite(end) else "unknown" for end in (found.low, found.high)]
        return value, " … ".join(ends)


def quantities(config: Config, calibration: Calibration) -> list[Quantity]:
    """What was found; all but the last two without a model of the channel."""
    found, physical = calibration.findings, config.physical
    fringes = calibration.fit("physics")
    return [
        Quantity(
            "noise",
            found.noise,
            RATE,
            "sigma_eps: standard deviation of a reward's noise, from what differs between slots at "
            "rest as their distance in time goes to 0",
        ),
        Quantity(
            "mean reward",
            found.mean,
            RATE,
            "over the rail and the time of this calibration",
        ),
        Quantity(
            "sigma_f",
            found.sigma_f,
            RATE,
            "standard deviation of the reward without noise, over the rail and the time of this "
            "calibration",
        ),
        Quantity(
            "drift",
            found.drift,
            RATE,
            f"root mean square change of the reward at a place within {DRIFT_SLOTS} slots",
        ),
        Quantity(
            "coherence time",
            found.coherence_s,
            "s",
            "after this time the mean squared change at a place is sigma_f²: the correlation is "
            "one half. Unknown beyond a quarter of the calibration",
        ),
        Quantity(
            "coherence length",
            found.coherence_length,
            "wavelengths",
            "at this distance the mean squared difference is sigma_f²: the correlation is one half",
        ),
        Quantity(
            "backlash",
            found.backlash.mapped(physical.to_mm),
            "mm",
            "how much higher the antenna stands when it comes from below than from above",
        ),
        Quantity(
            "settling",
            found.settling.mapped(root),
            RATE,
            "by how much the first measurement after a move is off, beyond noise and drift",
        ),
        Quantity(
            "sector",
            sector_of(fringes),
            "degrees",
            "width of the sector that would explain the fringes in the paper's channel; one map "
            "says little about it",
        ),
        Quantity(
            "spread",
            spread_of(fringes),
            "degrees",
            "angular spread that would explain the damping in the paper's channel; one map says "
            "next to nothing about it",
        ),
    ]


def calibration_page(
    config: Config, calibration: Calibration, identity: Mapping[str, str], *, now_s: float
) -> str:
    """The page as HTML."""
    moment = datetime.fromtimestamp(now_s, UTC).strftime("%Y-%m-%d %H:%M UTC")
    physical = config.physical
    title = f"Calibration of {moment}"
    where = (
        f"{bench_text(identity)} · {physical.carrier_frequency_hz / 1e9:.6g} GHz · rail of "
        f"{physical.rail_mm:.4g} mm, {physical.region_length:g} wavelengths"
    )
    advice = calibration.advice
    return page(
        title,
        [
            f'<h1>{escape(title)}</h1><p class="facts">{escape(where)}</p>',
            paragraph(_summary(config, calibration), "lead"),
            _tiles(config, calibration),
            section(
                "What is wrong with this site",
                *(paragraph(text, "bad") for text in advice.warnings),
            )
            or paragraph("No assumption of the controller is violated.", "good"),
            section("What was measured", _quantities(config, calibration)),
            section("The map", figures.site_map(config, calibration), note=figures.MAP_NOTE),
            section(
                "How it changes",
                '<div class="many">',
                figures.time_correlation(config, calibration),
                figures.space_correlation(config, calibration),
                "</div>",
                note=figures.CORRELATION_NOTE,
            ),
            section(
                "The kernels",
                _kernels(calibration),
                '<div class="many">',
                figures.spectra(config, calibration),
                figures.residuals(calibration),
                "</div>",
                note=_NATS,
            ),
            section("After a move", figures.settling(calibration), note=figures.SETTLING_NOTE),
            section("Settings for a run", _settings(calibration)),
            section("Advice", *(paragraph(text) for text in advice.notes)),
            section("How it was measured", _plan(config, calibration)),
        ],
    )


def _summary(config: Config, calibration: Calibration) -> str:
    found = calibration.findings
    slot_s = config.physical.slot_duration_s
    slots = found.coherence_s.value / slot_s
    lasts = f"{slots:.0f} slots" if isfinite(slots) else "the whole calibration"
    return (
        f"Along the rail and in time the reward varies by {found.sigma_f.value:.2f} {RATE} around "
        f"{found.mean.value:.2f}; one measurement is off by {found.noise.value:.2f}. A place keeps "
        f"its reward for about {lasts}, and places {found.coherence_length.value:.2f} wavelengths "
        f"apart differ. The kernel {calibration.fits[0].name} explains the site best."
    )


def _tiles(config: Config, calibration: Calibration) -> str:
    shown = {"noise", "sigma_f", "coherence time", "coherence length"}
    facts = []
    for quantity in quantities(config, calibration):
        if quantity.name in shown:
            value, interval = quantity.texts()
            facts.append((f"{value} {quantity.unit}", quantity.name, f"95 %: {interval}"))
    return tiles(facts)


def _quantities(config: Config, calibration: Calibration) -> str:
    rows = [
        (quantity.name, *quantity.texts(), quantity.unit, quantity.meaning)
        for quantity in quantities(config, calibration)
    ]
    return table(("quantity", "value", "95 % interval", "unit", "meaning"), rows, (1,))


def _kernels(calibration: Calibration) -> str:
    best = calibration.fits[0]
    rows = []
    for fit in calibration.fits:
        gain = Estimate(nan) if fit is best else best.better_than(fit)
        lengths = ", ".join(
            f"{name.replace('_', ' ')} {interval_text(estimate)}"
            for name, estimate in fit.intervals.items()
            if name not in ("variance", "correlation_s", "noise2")
        )
        behind = "" if fit is best else interval_text(gain)
        rows.append((fit.name, f"{fit.score:.4f}", behind, lengths))
    return table(
        ("kernel", "held-out density", "the best one is ahead by", "parameters and intervals"),
        rows,
        (1,),
    )


def _settings(calibration: Calibration) -> str:
    rows = [
        (setting.path, str(setting.value), setting.reason)
        for setting in calibration.advice.settings
    ]
    return table(("setting", "value", "why"), rows)


def _plan(config: Config, calibration: Calibration) -> str:
    plan, samples = calibration.plan, calibration.samples
    invalid = ", ".join(f"{count} {reason}" for reason, count in samples.invalid.items())
    rows = [
        ("time", f"{calibration.duration_s:.1f} s, {len(samples.cycles)} cycles"),
        ("walks", f"{plan.pairs} up and down per cycle, at {len(plan.positions)} places"),
        ("hops", f"{plan.hops} per cycle"),
        ("rewards", f"{len(samples)} valid; invalid: {invalid or 'none'}"),
        ("slot", f"{config.physical.slot_duration_s:g} s"),
    ]
    return table(("what", "how much"), rows)
