"""The paper's bounds hold for every run, and the chain rule of information gain holds."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from macontrol.config import load_config
from macontrol.config.model.grid import Grid
from macontrol.controller.policies.features import kernel_features
from macontrol.controller.policies.kernel import kernel_from_config
from macontrol.controller.policies.theory import information_gain
from macontrol.sim.research.episode import play
from macontrol.sim.world.rewardmap import RewardMap
from support.paper_reference import covariance, log_det_gain, posterior

PAPER = load_config()
STEPS = 60


@given(
    data=st.data(),
    margin=st.sampled_from([0.01, 0.1, 0.5]),
    window=st.integers(1, 30),
    beta=st.sampled_from([0.0, 1.5, 5.0]),
    eta=st.sampled_from([0.0, 2.0]),
    stroke=st.sampled_from([0.1, 0.13, 0.35]),
    seed=st.integers(0, 1000),
    jumps=st.booleans(),
)
@settings(max_examples=40)
def test_every_run_of_moveucb_is_within_the_bounds(
    data: st.DataObject,
    margin: float,
    window: int,
    beta: float,
    eta: float,
    stroke: float,
    seed: int,
    jumps: bool,
) -> None:
    """On reward sequences without any law: the lemmas are per realization."""
    config = PAPER.replace(
        algorithm__grid_spacing=0.1,
        algorithm__margin=margin,
        algorithm__window=window,
        algorithm__beta=beta,
        algorithm__eta=eta,
        physical__stroke=stroke,
        physical__actuator_speed_m_per_s=10.0,
        survey__samples=20,
    )
    rng = np.random.default_rng(seed)
    slots = data.draw(st.integers(1, 120))
    if jumps:
        reward = rng.standard_normal((slots, STEPS + 1))
    else:
        reward = np.cumsum(0.2 * rng.standard_normal((slots, STEPS + 1)), axis=0)
    world = RewardMap(reward, np.zeros(slots), np.linspace(0, 6, 20), rng.standard_normal(20) + 1.0)
    episode = play(config, world, meter=True)
    assert {name: verdict.holds for name, verdict in episode.theory.items()} == dict.fromkeys(
        episode.theory, True
    )


@given(
    indices=st.lists(st.integers(0, STEPS), min_size=1, max_size=25),
    ridge=st.sampled_from([0.05, 0.5]),
)
@settings(max_examples=40)
def test_no_set_gains_much_more_than_the_greedy_one(indices: list[int], ridge: float) -> None:
    """γ_n is at most e/(e − 1) of what the greedy set gains, and the chain rule sums it up."""
    k, grid = covariance(PAPER.kernel), Grid(6.0, STEPS + 1)
    x = grid.points[indices]
    gain = log_det_gain(k, x, sigma_f2=1.0, ridge=ridge)
    chain = 0.0
    for i in range(len(x)):
        _, variance = posterior(k, x[:i], np.zeros(i), x[i : i + 1], sigma_f2=1.0, ridge=ridge)
        chain += 0.5 * float(np.log1p(variance[0] / ridge))
    np.testing.assert_allclose(chain, gain, rtol=1e-8)
    features = kernel_features(kernel_from_config(PAPER.kernel), grid)
    greedy = information_gain(features, len(x), sigma_f2=1.0, ridge=ridge)
    assert gain <= greedy * np.e / (np.e - 1) + 1e-9
