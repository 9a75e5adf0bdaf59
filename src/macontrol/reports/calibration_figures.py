"""The plots of a calibration."""

from __future__ import annotations

from math import isfinite

import numpy as np
from numpy.typing import NDArray

from macontrol.config import Config
from macontrol.controller.policies.kernel import StationaryKernel, kernel_from_config
from macontrol.controller.survey.calibration.findings import all_walks
from macontrol.controller.survey.calibration.result import Calibration
from macontrol.reports.drawing import Axis, Plot

Floats = NDArray[np.float64]

MAP_NOTE = (
    "Mean of all walks at each place. The band has two thirds of the single rewards: it is wider "
    "than the noise where the map changed. The last walk is drawn as it was measured."
)
CORRELATION_NOTE = (
    "Correlation of the reward with itself: 1 less the mean squared change over twice sigma_f². It "
    "is one half at the coherence time and length. It stays above 0 where a part of the map does "
    "not change."
)
SETTLING_NOTE = (
    "Mean squared difference between a measurement after a move and the next one, over the time "
    "since the arrival. Noise and drift make it constant; a carriage that swings makes it fall."
)
RATE = "reward (bit/s/Hz)"
_LAGS = 240
_HIGHEST = 2.5


def site_map(config: Config, calibration: Calibration) -> str:
    """The reward along the rail, with a band."""
    walks = all_walks(calibration.samples)
    at = calibration.plan.positions
    rewards = np.full((len(walks), len(at)), np.nan)
    for row, walk in enumerate(walks):
        rewards[row, walk.index] = walk.reward
    known = np.isfinite(rewards).any(axis=0)
    at, rewards = at[known], rewards[:, known]
    low, middle, high = np.nanquantile(rewards, [1 / 6, 0.5, 5 / 6], axis=0)
    middle = np.nanmean(rewards, axis=0)
    plot = Plot(
        Axis(0.0, config.physical.region_length, "position (λ)"),
        Axis.around(RATE, low, high, rewards[-1]),
        height=260,
        label="the reward along the rail",
    )
    plot.band(at, low, high, "band", "two thirds of the rewards")
    plot.line(at, rewards[-1], "other", "last walk")
    plot.line(at, middle, "run", "mean")
    return f"<figure>{plot.html()}{plot.legend()}</figure>"


def time_correlation(config: Config, calibration: Calibration) -> str:
    """The autocorrelation in time."""
    found = calibration.findings
    curve, variance = found.in_time, found.sigma_f.value**2
    if not len(curve.lag) or not variance:
        return ""
    correlation = 1 - curve.value / (2 * variance)
    slot_s = config.physical.slot_duration_s
    axis = Axis(min(slot_s, curve.lag[0]), 1.05 * curve.lag[-1], "lag", logarithmic=True)
    plot = Plot(axis, Axis(-0.5, 1.1, "correlation in time"), label="autocorrelation in time")
    plot.level(0.5, "aim", "one half")
    plot.line(curve.lag, correlation, "run", "measured")
    plot.upright(slot_s, "mark", "a slot")
    if isfinite(found.coherence_s.value):
        plot.upright(found.coherence_s.value, "limit", "coherence time")
    return f"<figure>{plot.html()}{plot.legend()}</figure>"


def space_correlation(config: Config, calibration: Calibration) -> str:
    """The autocorrelation along the rail, with those of the kernels."""
    distance, correlation = _measured_correlation(calibration)
    lags = np.linspace(0.0, float(distance[-1]), _LAGS)
    plot = Plot(
        Axis(0.0, float(distance[-1]), "distance (λ)"),
        Axis(-0.7, 1.1, "correlation along the rail"),
        label="autocorrelation along the rail",
    )
    plot.level(0.5, "aim", "one half")
    plot.line(distance, correlation, "run", "measured")
    for kernel, look, name in _kernels(config, calibration):
        plot.line(lags, kernel(lags), look, name)
    return f"<figure>{plot.html()}{plot.legend()}</figure>"


def spectra(config: Config, calibration: Calibration) -> str:
    """The spectrum of the map, with those of the kernels: where the fringes are."""
    distance, correlation = _measured_correlation(calibration)
    lags = np.linspace(0.0, float(distance[-1]), _LAGS)
    rates = np.linspace(0.0, _HIGHEST, _LAGS)
    measured = _spectrum(lags, np.interp(lags, distance, correlation), rates)
    curves = [(measured, "run", "measured")]
    for kernel, look, name in _kernels(config, calibration):
        curves.append((_spectrum(lags, kernel(lags), rates), look, name))
    plot = Plot(
        Axis(0.0, _HIGHEST, "fringes per wavelength"),
        Axis.around("spectral density (λ)", *(curve for curve, _, _ in curves), zero=True),
        label="spectrum of the map",
    )
    for curve, look, name in curves:
        plot.line(rates, curve, look, name)
    return f"<figure>{plot.html()}{plot.legend()}</figure>"


def residuals(calibration: Calibration) -> str:
    """The residuals of the best kernel, beside the normal law that they should have."""
    found = calibration.fits[0].residuals
    edges = np.linspace(-4.0, 4.0, 33)
    counts, _ = np.histogram(np.clip(found, -4.0, 4.0), edges)
    density = counts / (counts.sum() * (edges[1] - edges[0]))
    at = np.linspace(-4.0, 4.0, 120)
    normal = np.exp(-0.5 * at**2) / np.sqrt(2 * np.pi)
    plot = Plot(
        Axis(-4.0, 4.0, "residual of a prediction, in its standard deviations"),
        Axis.around("density", density, normal, zero=True),
        label="residuals of the best kernel",
    )
    plot.bars(edges, density, "bar")
    plot.line(at, normal, "run", "normal law")
    return f"<figure>{plot.html()}{plot.legend()}</figure>"


def settling(calibration: Calibration) -> str:
    """The mean squared differences after a hop."""
    found = calibration.findings
    if not len(found.settling_delay_s):
        return ""
    delay_ms = found.settling_delay_s * 1e3
    plot = Plot(
        Axis.around("ms after the arrival", delay_ms, zero=True),
        Axis.around("mean squared difference", found.settling_squares, zero=True),
        height=160,
        label="after a move",
    )
    plot.line(delay_ms, found.settling_squares, "run")
    return f"<figure>{plot.html()}</figure>"


def _measured_correlation(calibration: Calibration) -> tuple[Floats, Floats]:
    """Distances, beginning with 0, and the correlation there."""
    curve = calibration.findings.in_space
    variance = max(calibration.findings.sigma_f.value**2, 1e-12)
    distance = np.append(0.0, curve.lag)
    return distance, np.append(1.0, 1 - curve.value / (2 * variance))


def _kernels(config: Config, calibration: Calibration) -> list[tuple[StationaryKernel, str, str]]:
    best = calibration.fits[0]
    return [
        (best.kernel, "other", f"{best.name}, fitted"),
        (kernel_from_config(config.kernel), "third", f"{config.kernel.name}, as it was set"),
    ]


def _spectrum(lags: Floats, correlation: Floats, rates: Floats) -> Floats:
    """The cosine transform of a correlation, with a window that ends it smoothly."""
    window = 0.5 * (1 + np.cos(np.pi * lags / lags[-1]))
    weights = np.full(len(lags), lags[1] - lags[0])
    weights[0] /= 2
    waves = np.cos(2 * np.pi * np.multiply.outer(rates, lags))
    return np.asarray(2 * waves @ (window * correlation * weights))
