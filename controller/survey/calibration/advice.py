"""What follows from the findings: settings, each with its reason, and warnings in plain words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any

import numpy as np

from macontrol.config import Config
from macontrol.config.model.rounding import at_least, at_most
from macontrol.config.sections.physical import Physical
from macontrol.controller.survey.calibration.estimate import Estimate
from macontrol.controller.survey.calibration.findings import Findings
from macontrol.controller.survey.calibration.kernel_fit import Fit
from macontrol.controller.survey.calibration.samples import Samples
from macontrol.hal.probe import CLIPPING, NO_SIGNAL

_LEAST_WINDOW, _MOST_WINDOW = 50, 1000
_LEAST_RIDGE, _MOST_RIDGE = 0.005, 2.0
# A damped cosine falls to a correlation of 1/2 after about a sixth of its period.
_PERIODS_PER_LENGTH = 6.0
_STEADY = 0.25
_SLOT_SHARE = 0.1
"""The longest slot, as a share of the coherence time."""
_AT_FLOOR, _CLIPPED = 0.1, 0.02
_MARGIN = 0.1
"""Δ in units of σ_f. No other one is better in simulated worlds: see docs/measurements.md."""
_DEPENDS = 0.25
"""A map varies with the position if its variance is more than this share of the noise's."""


@dataclass(frozen=True)
class Setting:
    """A value of the config, and what it follows from."""

    path: str
    value: Any
    reason: str


@dataclass(frozen=True)
class Advice:
    """What a run on this site should use, and what is wrong with the site."""

    settings: tuple[Setting, ...]
    notes: tuple[str, ...]
    """What is advised and is no setting of a run, such as the length of a slot."""
    warnings: tuple[str, ...]


def advise(config: Config, samples: Samples, found: Findings, fits: Sequence[Fit]) -> Advice:
    """The advice for a site; `fits` are ordered, the chosen one first."""
    return Advice(
        tuple(_settings(config, samples, found, fits)),
        tuple(_notes(config, found)),
        tuple(_warnings(config, samples, found)),
    )


def _settings(
    config: Config, samples: Samples, found: Findings, fits: Sequence[Fit]
) -> Iterator[Setting]:
    noise = found.noise
    yield Setting(
        "reward.noise_level",
        rounded(min(noise.value / config.g_max, 1.0)),
        f"sigma_eps = {interval_text(noise)} bit/s/Hz, in units of g_max = {config.g_max:.4g}",
    )
    yield Setting(
        "reward.offset",
        "survey",
        f"a place that left the window is taken for the mean reward, {interval_text(found.mean)}, "
        "instead of 0",
    )
    for key, value in fits[0].settings.items():
        yield Setting(f"kernel.{key}", _plain(value), _kernel_reason(key, fits))
    yield Setting(
        "algorithm.ridge",
        rounded(float(np.clip(noise.value**2, _LEAST_RIDGE, _MOST_RIDGE))),
        "sigma_eps^2: with this ridge the posterior expects this noise",
    )
    yield Setting(
        "algorithm.margin",
        _MARGIN,
        "in units of sigma_f; in simulated worlds the best one depends neither on the noise nor on "
        "the drift, so no measurement changes it",
    )
    slot_s = config.physical.slot_duration_s
    coherence = found.coherence_s
    yield Setting(
        "algorithm.window",
        window_for(coherence, slot_s),
        f"the coherence time is {interval_text(coherence)} s, "
        f"{_count_text(coherence.value / slot_s)} slots",
    )
    yield _freshness(config, samples, found)


def window_for(coherence: Estimate, slot_s: float) -> int:
    """w: the samples of one coherence time."""
    slots = coherence.value / slot_s if isfinite(coherence.value) else _MOST_WINDOW
    return int(np.clip(round(slots), _LEAST_WINDOW, _MOST_WINDOW))


def _freshness(config: Config, samples: Samples, found: Findings) -> Setting:
    """How long sigma_f of a survey is usable: as long as that of the walks stays."""
    noise2 = found.noise.value**2
    by_cycle = [
        float(np.mean([walk.reward.var(ddof=1) for walk in samples.walks(cycle)])) - noise2
        for cycle in samples.cycles
        if samples.walks(cycle)
    ]
    spread = np.sqrt(np.maximum(by_cycle, 0.0))
    scatter = float(spread.std(ddof=1) / spread.mean()) if spread.mean() > 0 else inf
    duration_s = float(np.ptp(samples.time_s))
    fresh_s = (
        config.survey.fresh_s if scatter <= _STEADY else min(config.survey.fresh_s, duration_s)
    )
    return Setting(
        "survey.fresh_s",
        rounded(fresh_s),
        f"sigma_f = {interval_text(found.sigma_f)} bit/s/Hz, which scattered by {scatter:.0%} "
        f"within {duration_s:.0f} s",
    )


def _kernel_reason(key: str, fits: Sequence[Fit]) -> str:
    best = fits[0]
    if key == "name":
        if len(fits) == 1:
            return "the only form"
        return lead_text(best, fits[1])
    if key == "fringe_periods":
        parts = [
            interval_text(estimate)
            for name, estimate in sorted(best.intervals.items(), key=lambda item: -item[1].value)
            if name.startswith("fringe_period")
        ]
        return f"wavelengths: {'; '.join(parts)}"
    if key in ("constant_weight", "residual_weight"):
        return f"the share of the fringes times {interval_text(best.intervals[key])}"
    return f"wavelengths: {interval_text(best.intervals[key])}"


def _notes(config: Config, found: Findings) -> Iterator[str]:
    yield slot_advice(config.physical, found.coherence_s)
    if found.stated_noise > 0 and found.noise.value > 0:
        ratio = found.noise.value / found.stated_noise
        if not 2 / 3 < ratio < 1.5:
            yield (
                f"the probe states a noise of {found.stated_noise:.3g} bit/s/Hz, and the measured "
                f"one is {ratio:.2g} times that: trust the measured one"
            )


def slot_advice(physical: Physical, coherence: Estimate) -> str:
    """How long a slot may be: what was found must be of use for some slots."""
    slot_s = physical.slot_duration_s
    known_s = coherence.value if isfinite(coherence.value) else coherence.low
    least = "" if isfinite(coherence.value) else "at least "
    longest_s = known_s * _SLOT_SHARE
    if least and slot_s > longest_s:
        return (
            f"too little is known of the coherence time to say whether physical.slot_duration_s = "
            f"{slot_s:g} is short enough; choose more --minutes"
        )
    if slot_s <= longest_s:
        verdict = f"keep physical.slot_duration_s = {slot_s:g}"
    elif physical.actuation_time_s < longest_s:
        verdict = f"shorten physical.slot_duration_s = {slot_s:g}"
    else:
        verdict = (
            f"physical.slot_duration_s = {slot_s:g} is too long, but a move of a stroke takes "
            f"{physical.actuation_time_s:g} s: use a faster stage, or a shorter physical.stroke"
        )
    return (
        f"{verdict}: the coherence time is {least}{known_s / slot_s:.3g} slots, and slots of up to "
        f"{at_most(longest_s, 2)} s, a tenth of it, leave time to use what was found"
    )


def _warnings(config: Config, samples: Samples, found: Findings) -> Iterator[str]:
    yield from _of_the_receiver(samples)
    if changes_within_a_slot(found) or found.coherence_s.value < config.physical.slot_duration_s:
        yield (
            f"A slot ({config.physical.slot_duration_s:g} s) is longer than the coherence time: "
            "what was measured in a slot is void in the next one, and no policy can use it. "
            "Shorten the slot, or quieten the site."
        )
        return
    along = max(float(np.max(found.in_space.value, initial=0.0)) / 2, 0.0)
    if along < _DEPENDS * found.noise.value**2:
        yield (
            "The reward does not depend on the position: along the rail it varies by less than "
            f"its noise ({along**0.5:.2g} against {found.noise.value:.2g} bit/s/Hz). Check that "
            "the antenna on the carriage is the one that is connected, or measure longer per slot."
        )
        return
    yield from _of_the_fringes(config, found)
    yield from _of_the_positions(config, found)


def _of_the_fringes(config: Config, found: Findings) -> Iterator[str]:
    slot_s, coherence = config.physical.slot_duration_s, found.coherence_s
    if coherence.value < 10 * slot_s:
        yield (
            f"The coherence time ({interval_text(coherence)} s) is only "
            f"{coherence.value / slot_s:.2g} slots: most of it passes while the antenna travels."
        )
    fringe = _PERIODS_PER_LENGTH * found.coherence_length.value
    length = config.physical.region_length
    if length < 2 * fringe:
        shown = f"{fringe:.2g}" if isfinite(fringe) else f"more than {3 * length:.2g}"
        yield (
            f"The rail ({length:g} wavelengths) is shorter than two fringes (one is about {shown} "
            "wavelengths): there is little to choose from. Use a longer rail or a higher carrier."
        )


def _of_the_receiver(samples: Samples) -> Iterator[str]:
    total = len(samples) + sum(samples.invalid.values())
    clipped = samples.invalid.get(CLIPPING, 0) + int(np.nansum(samples.clipped > _CLIPPED))
    ceiling = float(np.mean(samples.reward >= samples.reward.max() - 1e-12))
    if clipped > _CLIPPED * total or ceiling > _CLIPPED + 1 / len(samples):
        yield (
            f"The receiver saturates: {max(clipped / total, ceiling):.0%} of the measurements are "
            "clipped or at one highest value. Lower the gain; `macontrol check` proposes one."
        )
    lost = samples.invalid.get(NO_SIGNAL, 0)
    floor = int(np.sum((samples.above_floor < 1) | (samples.reward == 0.0))) + lost
    if floor > _AT_FLOOR * total:
        yield (
            f"The receiver sits at its noise floor in {floor / total:.0%} of the measurements. "
            "Raise the gain or the transmitter's power, or bring both closer."
        )


def _of_the_positions(config: Config, found: Findings) -> Iterator[str]:
    spacing, play = config.algorithm.grid_spacing, found.backlash
    to_mm = config.physical.to_mm
    if (play.low > 0 or play.high < 0) and abs(play.value) > spacing:
        yield (
            f"A place is {to_mm(abs(play.value)):.2g} mm elsewhere when it is reached from the "
            f"other side ({interval_text(play)} wavelengths): the grid of "
            f"{to_mm(spacing):.2g} mm is finer than the carriage. Tighten the belt, or set "
            "algorithm.grid_spacing higher."
        )
    if found.settling.low > 0:
        excess = found.settling.value**0.5
        yield (
            f"The reward still settles after a move: the first measurement is off by "
            f"{excess:.2g} bit/s/Hz more than the next ones. Raise physical.settling_s and "
            "stage.settling_s."
        )
    if not_repeated(found):
        yield (
            "The antenna does not come back to the same value: between two walks a place changes "
            "much more than standing still for the same time. The carriage loses steps, or its "
            "own motion (cable, person) changes the field."
        )


def not_repeated(found: Findings) -> bool:
    """Whether walks differ by far more than the drift at rest explains."""
    curve = found.in_time
    if not 0 < curve.at_rest < len(curve.lag):
        return False
    last = curve.at_rest - 1
    # D grows at most with the square of the lag.
    growth = float(curve.lag[last + 1] / curve.lag[last]) ** 2
    excess = float(curve.value[last + 1]) - growth * max(float(curve.value[last]), 0.0)
    return excess > 0.5 * found.sigma_f.value**2


def changes_within_a_slot(found: Findings) -> bool:
    """Whether most of what varies at a place is gone after one slot, and is not the probe's noise.

    Such a change cannot be told from noise by its course in time, but by what the probe states.
    """
    unstated = found.noise.value**2 - found.stated_noise**2
    return unstated > max(found.sigma_f.value**2, 3 * found.stated_noise**2)


def lead_text(best: Fit, other: Fit) -> str:
    """By how much a kernel explains a site better than another one, if it clearly does."""
    lead = best.better_than(other)
    verdict = "better than" if lead.low > 0 else "about as well as"
    return (
        f"explains stretches not seen {verdict} {other.name}: by {interval_text(lead)} nats per "
        "sample more"
    )


def interval_text(estimate: Estimate) -> str:
    """A value with its interval."""
    if not isfinite(estimate.value):
        return f"more than {estimate.low:.3g}"
    low, high = (
        f"{end:.3g}" if isfinite(end) else "unknown" for end in (estimate.low, estimate.high)
    )
    return f"{estimate.value:.3g} ({low} … {high})"


def _count_text(slots: float) -> str:
    return f"{slots:.0f}" if isfinite(slots) else "many"


def rounded(value: float) -> float:
    """A value with three significant digits, as a person would write it."""
    return float(f"{value:.3g}")


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return float(at_least(value, 4))
    if isinstance(value, tuple):
        return tuple(_plain(each) for each in value)
    return value
