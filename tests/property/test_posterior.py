"""For samples in any order, the posterior is the direct solution of the newest w samples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from macontrol.commands.bench.direct import DirectPosterior
from macontrol.config import Config, load_config
from macontrol.controller.policies.estimate import make_posterior
from macontrol.controller.policies.gram import GramPosterior
from macontrol.controller.policies.kernel import kernel_from_config
from macontrol.controller.policies.posterior import WindowedPosterior
from support.paper_reference import covariance, posterior

PAPER = load_config()
LENGTH = 6.0
TOLERANCE = 1e-8


@st.composite
def configs(draw: st.DrawFn) -> Config:
    steps = draw(st.sampled_from([1, 2, 7, 60, 150]))
    return PAPER.replace(
        physical__actuator_speed_m_per_s=100.0,
        physical__stroke="auto",
        kernel__name=draw(st.sampled_from(["physics", "se", "const-se", "nonoscillatory"])),
        kernel__fringe_periods=draw(
            st.sampled_from([(4.15, 1.81, 1.04), (0.5, 0.6, 0.7), (9.0, 3.0, 0.9)])
        ),
        kernel__se_length=draw(st.sampled_from([0.2, 0.5, 4.0])),
        algorithm__grid_spacing=LENGTH / steps,
        algorithm__window=draw(st.integers(1, 40)),
        algorithm__ridge=draw(st.sampled_from([0.01, 0.1, 3.0])),
        survey__samples=2,
    )


# The grid takes a position within 1e-9 of a point for that point, and the reference does not.
positions = st.one_of(
    st.sampled_from([0.0, 1.2, 3.0, 6.0]),
    st.floats(0.0, LENGTH).map(lambda position: round(position, 6)),
)
rewards = st.floats(-10.0, 10.0)


@pytest.mark.fault("transmitter-stops")
@given(
    config=configs(),
    scale=st.sampled_from([1e-3, 1.0, 30.0]),
    offset=st.sampled_from([0.0, 2.0, -7.5]),
    samples=st.lists(st.tuples(positions, rewards), min_size=1, max_size=90),
    lateness=st.lists(st.integers(0, 12), min_size=90, max_size=90),
    repeats=st.lists(st.integers(0, 89), max_size=5),
    withdrawals=st.dictionaries(st.integers(0, 89), st.lists(st.integers(0, 89)), max_size=8),
)
@settings(max_examples=150)
def test_it_is_the_direct_solve_of_the_newest_samples(
    config: Config,
    scale: float,
    offset: float,
    samples: list[tuple[float, float]],
    lateness: list[int],
    repeats: list[int],
    withdrawals: dict[int, list[int]],
) -> None:
    """`withdrawals`: after how many arrivals the rewards of which slots are taken back."""
    arrival = sorted(range(len(samples)), key=lambda slot: slot + lateness[slot])
    subject = make_posterior(config, scale, offset)
    assert isinstance(subject, WindowedPosterior)
    ridge, window = config.algorithm.ridge, config.algorithm.window
    kernel, grid = kernel_from_config(config.kernel), config.grid
    plain = DirectPosterior(kernel, grid, sigma_f2=scale, ridge=ridge, window=window, offset=offset)
    gram = GramPosterior(kernel, grid, sigma_f2=scale, ridge=ridge, window=window, offset=offset)
    newest: list[int] = []
    for count, slot in enumerate(arrival):
        newest = sorted([*newest, slot])[-config.algorithm.window :]
        taken_back = withdrawals.get(count, [])
        newest = [kept for kept in newest if kept not in taken_back]
        for each in (subject, plain, gram):
            each.observe(slot, *samples[slot])
            if count in repeats:
                each.observe(slot, 1.0, 9.0)
            for withdrawn in taken_back:
                each.withdraw(withdrawn)
    assert subject.slots == gram.slots == newest
    assert len(plain) == len(newest)
    x = np.array([samples[slot][0] for slot in newest])
    r = np.array([samples[slot][1] for slot in newest]) - offset
    mean, variance = posterior(
        covariance(config.kernel),
        x,
        r,
        subject.grid.points,
        sigma_f2=scale,
        ridge=config.algorithm.ridge,
    )
    size = max(1.0, *(abs(reward) for _, reward in samples))
    for each in (subject, plain, gram):
        assert np.abs(each.mean - offset - mean).max() <= TOLERANCE * size
        assert np.abs(each.variance - variance).max() <= TOLERANCE * scale
    assert subject.variance.min() >= -TOLERANCE * scale
    assert subject.variance.max() <= scale * (1 + TOLERANCE)


@given(
    samples=st.lists(st.tuples(positions, rewards), min_size=2, max_size=40),
    factor=st.floats(1e-3, 1e3),
)
@settings(max_examples=50)
def test_the_mean_is_linear_in_the_rewards_and_the_variance_does_not_depend_on_them(
    samples: list[tuple[float, float]], factor: float
) -> None:
    config = PAPER.replace(algorithm__grid_spacing=0.05)
    first, second = make_posterior(config, 1.0), make_posterior(config, 1.0)
    for slot, (position, reward) in enumerate(samples):
        first.observe(slot, position, reward)
        second.observe(slot, position, factor * reward)
    size = factor * max(abs(reward) for _, reward in samples) + 1e-300
    np.testing.assert_allclose(second.mean, factor * first.mean, rtol=0, atol=1e-9 * size)
    np.testing.assert_allclose(second.variance, first.variance, rtol=0, atol=1e-12)


@given(samples=st.lists(st.tuples(positions, rewards), min_size=1, max_size=60))
@settings(max_examples=50)
def test_a_sample_never_adds_uncertainty_while_the_window_fills(
    samples: list[tuple[float, float]],
) -> None:
    subject = make_posterior(PAPER.replace(algorithm__grid_spacing=0.05), 2.0)
    before = subject.variance.copy()
    for slot, sample in enumerate(samples):
        subject.observe(slot, *sample)
        assert (subject.variance <= before + 1e-9).all()
        before = subject.variance.copy()
