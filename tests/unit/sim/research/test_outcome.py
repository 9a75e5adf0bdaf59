"""Standard errors: the usual one for means, the jackknife for functions of means."""

from __future__ import annotations

from math import isnan, sqrt

import numpy as np
import pytest

from macontrol.sim.research.figures.variation import exponent
from macontrol.sim.research.outcome import estimate, of_means


def test_the_standard_error_of_a_mean() -> None:
    mean, error, count = estimate([1.0, 2.0, 4.0, 5.0])
    assert (mean, count) == (3.0, 4)
    assert error == pytest.approx(sqrt(10 / 3) / 2)


def test_one_realization_has_no_standard_error() -> None:
    assert isnan(estimate([1.0]).standard_error)
    assert isnan(of_means(lambda mean: float(mean), [1.0]).standard_error)


def test_the_jackknife_agrees_with_the_standard_error_of_a_mean() -> None:
    values = np.random.default_rng(0).normal(size=20)
    assert of_means(lambda mean: float(mean), values) == pytest.approx(estimate(values))


def test_a_ratio_is_of_means_and_its_error_that_of_the_delta_method() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(10, 1, 400), rng.normal(20, 1, 400)
    ratio, error, _ = of_means(lambda x, y: float(y / x), a, b)
    assert ratio == pytest.approx(b.mean() / a.mean())
    delta = ratio / sqrt(400) * sqrt((1 / 10) ** 2 + (1 / 20) ** 2)
    assert error == pytest.approx(delta, rel=0.1)


def test_the_exponent_of_a_power_law() -> None:
    horizons = [100, 200, 400]
    assert exponent(horizons, 3 * np.array(horizons) ** 0.5) == pytest.approx(0.5)
