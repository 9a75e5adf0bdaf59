"""Every kernel of a config is a covariance, and its features reproduce it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from macontrol.config import load_config
from macontrol.config.model.grid import Grid
from macontrol.config.sections.kernel import Kernel
from macontrol.controller.policies.features import KernelFeatures
from macontrol.controller.policies.kernel import fringe_periods, kernel_from_config
from support.paper_reference import covariance

PAPER = load_config()


@st.composite
def kernels(draw: st.DrawFn) -> Kernel:
    periods = draw(st.lists(st.floats(0.4, 20.0), min_size=1, max_size=5))
    constant = draw(st.floats(0.0, 1.0))
    return PAPER.replace(
        kernel__name=draw(st.sampled_from(["physics", "se", "const-se", "nonoscillatory"])),
        kernel__components=len(periods),
        kernel__fringe_periods=tuple(periods),
        kernel__fringe_damping=draw(st.floats(0.2, 20.0)),
        kernel__residual_length=draw(st.floats(0.2, 20.0)),
        kernel__se_length=draw(st.floats(0.1, 10.0)),
        kernel__constant_weight=constant,
        kernel__residual_weight=draw(st.floats(0.0, 1.0 - constant)),
    ).kernel


@given(
    settings_=kernels(),
    positions=st.lists(st.floats(0.0, 30.0), min_size=1, max_size=40),
)
def test_it_is_a_covariance(settings_: Kernel, positions: list[float]) -> None:
    kernel, x = kernel_from_config(settings_), np.array(positions)
    gram = kernel(x[:, None] - x[None, :])
    np.testing.assert_allclose(np.diag(gram), 1.0, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(gram, gram.T)
    assert np.linalg.eigvalsh(gram)[0] >= -1e-12 * len(x)
    expected = covariance(settings_)(x[:, None] - x[None, :])
    np.testing.assert_allclose(gram, expected, rtol=0, atol=1e-13)


@given(
    settings_=kernels(),
    length=st.sampled_from([0.3, 6.0, 17.0]),
    shares=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=20),
)
@settings(max_examples=40)
def test_its_features_reproduce_it(settings_: Kernel, length: float, shares: list[float]) -> None:
    kernel, grid = kernel_from_config(settings_), Grid(length, 31)
    features = KernelFeatures(kernel, grid)
    x = np.concatenate([np.array(shares) * length, grid.points])
    phi = np.array([features.at(float(position)) for position in x])
    exact = covariance(settings_)(x[:, None] - x[None, :])
    # A position within 1e-9 of a grid point counts as that point.
    on_grid = np.array([grid.snap(float(position)) for position in x])
    if (on_grid == x).all():
        assert np.abs(phi @ phi.T - exact).max() <= 1e-12
    else:
        assert np.abs(phi @ phi.T - exact).max() <= 1e-7


@given(
    low=st.floats(0.0, 170.0),
    width=st.floats(5.0, 180.0),
    components=st.integers(1, 8),
)
@settings(max_examples=30)
def test_fringe_periods_fall_and_stay_within_the_sector(
    low: float, width: float, components: int
) -> None:
    high = min(low + width, 180.0)
    periods = fringe_periods((low, high), components)
    assert len(periods) == components
    assert all(a > b for a, b in pairwise(periods))
    widest = np.cos(np.deg2rad(low)) - np.cos(np.deg2rad(high))
    assert periods[-1] > 1.0 / widest
