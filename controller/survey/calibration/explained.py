"""The sector and the spread of the paper's channel that explain a fitted kernel.

One map has few fringes: with three paths it has three, whose periods follow from three angles drawn
from the sector. So a map says little about the sector, and its damping next to nothing about the
spread. The lines and their intervals are regressions over 160 simulated worlds of the paper's
channel with sectors of 40 to 180 degrees and spreads of 1 to 15 degrees. The scatter of the
logarithm of the sector falls by an eighth when the shortest fringe is known, and that of the spread
by a hundredth when the damping is known. Settings of a run use the periods and the damping
themselves.
"""

from __future__ import annotations

from math import exp, log

from macontrol.controller.survey.calibration.estimate import Estimate
from macontrol.controller.survey.calibration.kernel_fit import Fit

_WIDEST_DEG = 180.0
_SECTOR = 4.58, -0.21, (-0.85, 0.75)
_SPREAD = 1.56, -0.17, (-1.6, 1.25)
"""Intercept, slope of the logarithms, and the interval of the logarithm around the line."""


def sector_of(fit: Fit) -> Estimate:
    """The width of the sector in degrees, from the shortest fringe of a fitted kernel `physics`."""
    found = _line(_SECTOR, min(fit.settings["fringe_periods"]))
    return found.mapped(lambda degrees: min(degrees, _WIDEST_DEG))


def spread_of(fit: Fit) -> Estimate:
    """The angular spread of a path in degrees, from the damping of a fitted kernel `physics`."""
    return _line(_SPREAD, fit.settings["fringe_damping"])


def _line(law: tuple[float, float, tuple[float, float]], length: float) -> Estimate:
    intercept, slope, (below, above) = law
    value = intercept + slope * log(length)
    return Estimate(exp(value), exp(value + below), exp(value + above))
