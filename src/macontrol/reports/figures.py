"""The plots of one run. Positions in wavelengths, with millimetres beside; times in seconds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from macontrol.config import Config
from macontrol.reports.drawing import Axis, Plot, block_means, extremes
from macontrol.reports.estimate import Estimate
from macontrol.reports.quantities import short_time_text
from macontrol.reports.raster import gradient, heat_map
from macontrol.reports.recorded import Recorded
from macontrol.reports.world import OracleTrace, World, sampled_map

Floats = NDArray[np.float64]

RATE = "bit/s/Hz"
_COLUMNS, _ROWS = 480, 150
_SAMPLED_ROWS = 36
"""Samples are drawn larger than the line of the antenna, which runs through all of them."""
_BARS = 36
_SHORTEST_S, _LONGEST_S = 1e-6, 10.0


def seconds(recorded: Recorded) -> Floats:
    """When each slot began, counted from the first one."""
    slot_s = recorded.config.physical.slot_duration_s
    return np.asarray((recorded.run["slot"] - recorded.run["slot"][0]) * slot_s, float)


def time_axis(recorded: Recorded) -> Axis:
    """The time of the run, in the unit that suits it."""
    return Axis(0.0, max(recorded.facts.duration_s, 1e-9), "time (s)")


def rail_axes(config: Config) -> tuple[Axis, Axis]:
    """The rail in wavelengths and in millimetres."""
    length = config.physical.region_length
    return Axis(0.0, length, "λ"), Axis(0.0, config.physical.to_mm(length), "mm")


def trajectory(recorded: Recorded, world: World | None) -> str:
    """The antenna on the rail over time, over the reward that is known there."""
    rail, rail_mm = rail_axes(recorded.config)
    along, time = seconds(recorded), time_axis(recorded)
    plot = Plot(time, rail, right=rail_mm, height=320, label="antenna along the rail over time")
    values = _simulated(recorded) if world is not None else _sampled(recorded, along, time)
    known = values[np.isfinite(values)]
    low, high = np.percentile(known, [1, 99]).tolist() if len(known) else (0.0, 1.0)
    if len(known):
        uri = heat_map(values[::-1], low, high)
        plot.image(uri, (time.low, time.high), (rail.low, rail.high), is_smooth=world is not None)
    if world is not None:
        plot.outlined(
            [time.low, time.high], [world.fixed_position] * 2, "place", "fixed antenna at x_0"
        )
    plot.outlined(*extremes(along, recorded.run["position"]), "way", "antenna")
    scale = ""
    if len(known):
        scale = (
            f'<div class="scale">{low:.2f} <i style="background:{gradient()}"></i> {high:.2f} '
            f"{RATE}</div>"
        )
    return f"<figure>{plot.legend()}{plot.html()}{scale}</figure>"


def _simulated(recorded: Recorded) -> Floats:
    """The true rewards, one row per position of the image, in one slot per column."""
    facts, config = recorded.facts, recorded.config
    columns = min(_COLUMNS, facts.last_slot - facts.first_slot + 1)
    slots = np.linspace(facts.first_slot, facts.last_slot, columns).astype(np.int64)
    positions = np.linspace(0.0, config.physical.region_length, _ROWS)
    return sampled_map(config, recorded.run.seed, slots, positions).T


def _sampled(recorded: Recorded, along: Floats, time: Axis) -> Floats:
    """The mean of the learned rewards at each point of the image; NaN where there is none."""
    reward, position = recorded.learned, recorded.run["position"]
    length = recorded.config.physical.region_length
    used = np.isfinite(reward) & (position >= 0) & (position <= length)
    columns = min(_COLUMNS, recorded.facts.last_slot - recorded.facts.first_slot + 1)
    bins = [
        np.linspace(0, length, _SAMPLED_ROWS + 1),
        np.linspace(time.low, time.high, columns + 1),
    ]
    sums, *_ = np.histogram2d(position[used], along[used], bins, weights=reward[used])
    counts, *_ = np.histogram2d(position[used], along[used], bins)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def rewards(recorded: Recorded, world: World | None, oracle: OracleTrace | None) -> str:
    """The reward over time, against a fixed antenna and the oracle."""
    run = recorded.run
    curves = [("run", "antenna", run["reward"])]
    if world is not None:
        curves.append(("fixed", "fixed antenna at x_0", world.fixed))
    if oracle is not None:
        curves.append(("best", "best possible trajectory", oracle.reward[run["slot"] - 1]))
    survey_reward = survey_at_x_0(recorded) if world is None else None
    at, *means = block_means([seconds(recorded), *(values for _, _, values in curves)])
    levels = [] if survey_reward is None else [[survey_reward]]
    heights = Axis.around(RATE, *means, *levels, zero=True)
    plot = Plot(time_axis(recorded), heights, label="reward over time")
    if survey_reward is not None:
        plot.level(survey_reward, "fixed", "at x_0 in the survey, before slot 1")
    for (look, name, _), values in list(zip(curves, means, strict=True))[::-1]:
        plot.line(at, values, look, name)
    return f"<figure>{plot.legend()}{plot.html()}</figure>"


def survey_at_x_0(recorded: Recorded) -> float | None:
    """What the survey measured at x_0, between its samples; None without a survey."""
    survey = recorded.header.survey
    if survey is None or not survey.can_be(recorded.config):
        return None
    order = np.argsort(survey.position)
    x_0 = recorded.config.physical.x_0
    return float(np.interp(x_0, survey.position[order], survey.reward[order]))


def movement(recorded: Recorded) -> str:
    """The distance travelled and the switches of the target, summed over time."""
    run, config = recorded.run, recorded.config
    along = seconds(recorded)
    travel = np.nancumsum(np.abs(np.diff(run["position"], prepend=run["position"][0])))
    switches = np.cumsum(np.ma.filled(run["switched"], False)).astype(float)
    far = Axis.around("λ", travel, zero=True)
    in_mm = Axis(0.0, config.physical.to_mm(far.high), "mm")
    left = Plot(time_axis(recorded), far, right=in_mm, height=170, label="distance travelled")
    left.line(*extremes(along, travel), "run")
    right = Plot(time_axis(recorded), Axis.around("switches", switches, zero=True), height=170)
    right.line(*extremes(along, switches), "other")
    return (
        f'<div class="many"><figure><h3>Distance travelled</h3>{left.html()}</figure>'
        f"<figure><h3>Switches of the target</h3>{right.html()}</figure></div>"
    )


def posterior(recorded: Recorded, estimates: list[Estimate], world: World | None) -> str:
    """The estimate along the rail in a few slots, with the truth where it is known."""
    slots = np.array([one.slot for one in estimates])
    truth: Floats | None = None
    if world is not None:
        truth = sampled_map(recorded.config, recorded.run.seed, slots, estimates[0].grid)
    bounds = [one.mean + sign * 2 * one.deviation for one in estimates for sign in (-1, 1)]
    heights = Axis.around(RATE, *bounds, *([] if truth is None else [truth]))
    rail = rail_axes(recorded.config)[0]
    figures, legend = [], ""
    for number, one in enumerate(estimates):
        plot = Plot(Axis(rail.low, rail.high, "position (λ)"), heights, height=190)
        low, high = one.mean - 2 * one.deviation, one.mean + 2 * one.deviation
        plot.band(one.grid, low, high, "band", "± 2 deviations")
        if truth is not None:
            plot.line(one.grid, truth[number], "best", "true reward")
        plot.line(one.grid, one.mean, "run", "estimate")
        if one.surface is not None:
            plot.line(one.grid, one.surface, "surface", "what the policy maximises")
        plot.upright(one.position, "mark", "antenna")
        plot.upright(one.target, "aim", "target")
        legend = plot.legend()
        figures.append(f"<figure><h3>{_when(recorded, one)}</h3>{plot.html()}</figure>")
    return f'{legend}<div class="many">{"".join(figures)}</div>'


def _when(recorded: Recorded, one: Estimate) -> str:
    passed = (one.slot - recorded.facts.first_slot) * recorded.config.physical.slot_duration_s
    return f"Slot {one.slot}, after {passed:.4g} s"


@dataclass(frozen=True)
class Phase:
    """A part of each slot, and how long it may take."""

    column: str
    title: str
    limit_s: float | None
    limit: str


def phases(config: Config) -> list[Phase]:
    """The parts of a slot that are timed, in their order."""
    timing = config.slot_timing
    left_s = timing.slot_s - timing.measure_end_s
    return [
        Phase("wake_s", "Wake-up after the boundary", timing.actuation_end_s, "T_a and its guard"),
        Phase(
            "actuate_s", "Until the arrival is known", timing.actuation_end_s, "T_a and its guard"
        ),
        Phase("measure_s", "Measurement", None, ""),
        Phase("decide_s", "Decision", left_s, "left for the decision"),
    ]


def timing(recorded: Recorded) -> str:
    """A histogram of each timed phase, on a logarithmic axis."""
    figures = []
    for phase in phases(recorded.config):
        values = recorded.run[phase.column]
        values = values[np.isfinite(values)]
        if not len(values):
            continue
        ends = np.array([*values, phase.limit_s or values.max()])
        ends = np.clip(ends, _SHORTEST_S, _LONGEST_S)
        low = 10.0 ** np.floor(np.log10(ends.min()))
        high = 10.0 ** np.ceil(np.log10(ends.max()) + 1e-9)
        edges = np.geomspace(low, max(high, 10 * low), _BARS + 1)
        counts, _ = np.histogram(np.clip(values, edges[0], edges[-1]), edges)
        across = Axis(edges[0], edges[-1], "", logarithmic=True)
        plot = Plot(across, Axis(0.0, 1.05 * counts.max(), "slots"), height=130, label=phase.title)
        plot.bars(edges, counts, "bar")
        if phase.limit_s is not None:
            plot.upright(phase.limit_s, "limit", f"{phase.limit}: {short_time_text(phase.limit_s)}")
        middle, high_99, most = np.percentile(values, [50, 99, 100]).tolist()
        figures.append(
            f'<figure><h3>{phase.title}</h3><div class="facts">median {short_time_text(middle)}, '
            f"99 % within {short_time_text(high_99)}, longest {short_time_text(most)}</div>"
            f"{plot.legend()}{plot.html()}</figure>"
        )
    return f'<div class="many">{"".join(figures)}</div>' if figures else ""
