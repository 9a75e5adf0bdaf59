"""The kernels are the paper's formulas, positive definite, and their rules give its numbers."""

from __future__ import annotations

import numpy as np
import pytest

from macontrol.config import Config
from macontrol.controller.policies.kernel import fringe_damping, fringe_periods, kernel_from_config
from support.paper_reference import covariance

NAMES = ("physics", "se", "const-se", "nonoscillatory")


@pytest.mark.parametrize("name", NAMES)
def test_each_kernel_is_its_formula(paper: Config, name: str) -> None:
    settings = paper.replace(
        kernel__name=name,
        kernel__components=2,
        kernel__fringe_periods=(3.3, 0.7),
        kernel__fringe_damping=1.7,
        kernel__residual_length=3.1,
        kernel__se_length=0.8,
        kernel__constant_weight=0.3,
        kernel__residual_weight=0.1,
    ).kernel
    lag = np.linspace(-30.0, 30.0, 4001)
    ours = kernel_from_config(settings)(lag)
    np.testing.assert_allclose(ours, covariance(settings)(lag), rtol=0, atol=1e-15)


def test_the_paper_kernel_is_table_1(paper: Config) -> None:
    """Weights ¼, ¼ and ½ shared by three fringes, at a lag worked out by hand."""
    lag = 1.04
    expected = (
        0.25
        + 0.25 * np.exp(-(1.04**2) / 32)
        + (np.cos(2 * np.pi * 1.04 / 4.15) + np.cos(2 * np.pi * 1.04 / 1.81) + 1)
        * np.exp(-(1.04**2) / 8)
        / 6
    )
    assert kernel_from_config(paper.kernel)(np.array(lag)) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("periods", [(4.15, 1.81, 1.04), "auto"])
def test_the_covariance_of_a_position_with_itself_is_one(
    paper: Config, name: str, periods: object
) -> None:
    settings = paper.replace(kernel__name=name, kernel__fringe_periods=periods).kernel
    assert kernel_from_config(settings)(np.zeros(1))[0] == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("length", [6.0, 30.0])
def test_each_kernel_is_positive_definite(paper: Config, name: str, length: float) -> None:
    kernel = kernel_from_config(paper.replace(kernel__name=name).kernel)
    x = np.linspace(0.0, length, 400)
    smallest = np.linalg.eigvalsh(kernel(x[:, None] - x[None, :]))[0]
    assert smallest >= -1e-12 * len(x)


def test_without_fringes_and_constant_it_is_the_squared_exponential(paper: Config) -> None:
    """Q = 0 and sigma_c = 0, as the paper remarks."""
    settings = paper.replace(
        kernel__components=0,
        kernel__fringe_periods=(),
        kernel__constant_weight=0.0,
        kernel__residual_weight=1.0,
        kernel__residual_length=0.5,
    ).kernel
    lag = np.linspace(-6.0, 6.0, 101)
    np.testing.assert_allclose(
        kernel_from_config(settings)(lag), np.exp(-2.0 * lag**2), rtol=0, atol=1e-15
    )


class TestFringeRule:
    """λ_q = λ/δ_q, δ_q the q/(Q+1) quantiles of |cos θ − cos θ'| over the sector."""

    def test_the_paper_sector_gives_the_paper_periods(self) -> None:
        periods = fringe_periods((30.0, 150.0), 3)
        assert periods == pytest.approx((4.159, 1.816, 1.045), abs=1e-3)
        # the same by adaptive quadrature between the kinks of the integrand
        exact = (4.159068105, 1.816574196, 1.044570812)
        assert periods == pytest.approx(exact, rel=1e-7)

    @pytest.mark.parametrize("sector", [(30.0, 150.0), (0.0, 180.0), (60.0, 75.0), (10.0, 100.0)])
    @pytest.mark.parametrize("components", [1, 4])
    def test_drawn_angles_agree(self, sector: tuple[float, float], components: int) -> None:
        draws = 400_000
        angles = np.deg2rad(np.random.default_rng(1).uniform(*sector, (2, draws)))
        differences = np.abs(np.cos(angles[0]) - np.cos(angles[1]))
        for q, period in enumerate(fringe_periods(sector, components), start=1):
            share = float((differences <= 1.0 / period).mean())
            assert share == pytest.approx(q / (components + 1), abs=4e-3)

    def test_no_fringe_is_finer_than_the_sector_allows(self) -> None:
        periods = fringe_periods((30.0, 150.0), 32)
        assert min(periods) > 1.0 / (2 * np.cos(np.pi / 6))
        assert list(periods) == sorted(periods, reverse=True)

    def test_no_components_have_no_periods(self) -> None:
        assert fringe_periods((30.0, 150.0), 0) == ()

    def test_a_config_can_ask_for_it(self, paper: Config) -> None:
        kernel = kernel_from_config(
            paper.replace(kernel__fringe_periods="auto", kernel__sector_deg=(40.0, 90.0)).kernel
        )
        fringes = [term.period for term in kernel.terms if np.isfinite(term.period)]
        assert fringes == list(fringe_periods((40.0, 90.0), 3))


class TestDampingRule:
    """ς_q = 2λ at a spread of 2 degrees, inversely proportional to it."""

    @pytest.mark.parametrize(("spread", "damping"), [(2.0, 2.0), (1.0, 4.0), (8.0, 0.5)])
    def test_it(self, spread: float, damping: float) -> None:
        assert fringe_damping(spread) == pytest.approx(damping)

    def test_a_config_can_ask_for_it(self, paper: Config) -> None:
        kernel = kernel_from_config(
            paper.replace(kernel__fringe_damping="auto", kernel__angular_spread_deg=4.0).kernel
        )
        assert {term.length for term in kernel.terms} == {1.0, 4.0}
