"""No policy decides a step beyond the stroke or a position off the rail.

Whatever the antenna reports (it may stand between grid points, or not where it was sent), and
whichever rewards are missing or late.
"""

from __future__ import annotations

from math import ceil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from macontrol.config import Config, load_config
from macontrol.config.policies import POLICIES
from macontrol.controller.policies.registry import make_policy
from macontrol.controller.survey.samples import Survey

PAPER = load_config()
# Positions within this of one another are the same.
ROUNDING = 2e-9


@st.composite
def configs(draw: st.DrawFn, policy: str) -> Config:
    spacing = 0.05
    steps = draw(st.sampled_from([1, 2, 9, 40]))
    stroke_steps = draw(st.sampled_from([1.0, 1.3, 2.0, 2.999, 7.5, 50.0]))
    sweep_slots = ceil(steps / stroke_steps - 1e-9)
    return PAPER.replace(
        algorithm__policy=policy,
        algorithm__grid_spacing=spacing,
        algorithm__window=draw(st.integers(1, 12)),
        algorithm__margin=draw(st.sampled_from([0.0, 0.1, 1.0])),
        algorithm__search=draw(st.sampled_from(["global", "local"])),
        algorithm__sweep_period=sweep_slots + draw(st.integers(1, 12)),
        algorithm__epsilon=draw(st.sampled_from([0.0, 0.5, 1.0])),
        physical__region_length=steps * spacing,
        physical__actuator_speed_m_per_s=100.0,
        physical__stroke=spacing * stroke_steps,
        physical__initial_position=steps * spacing * draw(st.floats(0.0, 1.0)),
        reward__movement_cost=draw(st.sampled_from([0.0, 0.3, 30.0])),
        survey__samples=2,
    )


slots = st.tuples(
    st.sampled_from(["as reported", "short", "anywhere"]),
    st.floats(0.0, 1.0),
    st.sampled_from(["seen", "missing", "late"]),
    st.floats(-5.0, 5.0),
)


@pytest.mark.parametrize("policy", POLICIES.names())
@given(data=st.data(), reports=st.lists(slots, min_size=1, max_size=40))
@settings(max_examples=60)
def test_every_step_is_within_reach_and_on_the_rail(
    policy: str,
    data: st.DataObject,
    reports: list[tuple[str, float, str, float]],
) -> None:
    config = data.draw(configs(policy))
    length, stroke = config.physical.region_length, config.physical.rho_max
    survey = Survey(np.array([0.0, length / 3, length]), np.array([1.0, 2.5, 2.0]))
    subject = make_policy(config, survey, seed=1)
    x = subject.start_position
    assert 0.0 <= x <= length
    waiting: list[tuple[int, float, float]] = []
    for slot, (report, share, reward_state, reward) in enumerate(reports, start=1):
        if reward_state == "seen":
            subject.observe(slot, x, reward)
        elif reward_state == "late":
            waiting.append((slot, x, reward))
        if share > 0.8:
            while waiting:
                subject.observe(*waiting.pop())
        decision = subject.decide(slot, x)
        assert abs(decision.position - x) <= stroke + ROUNDING
        assert 0.0 <= decision.position <= length
        assert 0.0 <= decision.target <= length
        assert decision.transit == (abs(decision.target - decision.position) > 1e-9)
        if not decision.transit:
            assert decision.position == pytest.approx(decision.target, abs=ROUNDING)
        elif abs(decision.position - x) < stroke - ROUNDING:
            pytest.fail("a step towards a target beyond reach must be a full stroke")
        x = {
            "as reported": decision.position,
            "short": x + share * (decision.position - x),
            "anywhere": share * length,
        }[report]
        x = min(max(x, 0.0), length)


@pytest.mark.parametrize("policy", ["moveucb", "gp-ucb", "sweep-and-hold", "epsilon-greedy"])
def test_a_stroke_between_grid_steps_is_used_and_not_exceeded(policy: str) -> None:
    config = PAPER.replace(
        algorithm__policy=policy,
        algorithm__grid_spacing=0.05,
        algorithm__sweep_period=150,
        physical__stroke=0.0583,
    )
    rng = np.random.default_rng(3)
    survey = Survey(np.linspace(0.0, 6.0, 40), rng.standard_normal(40))
    subject = make_policy(config, survey, seed=1)
    x, longest = subject.start_position, 0.0
    for slot in range(1, 600):
        subject.observe(slot, x, float(rng.standard_normal()))
        ahead = subject.decide(slot, x).position
        assert 0.0 <= ahead <= 6.0
        longest = max(longest, abs(ahead - x))
        x = ahead
    expected = 0.0583 if policy in ("moveucb", "sweep-and-hold") else 0.05
    assert longest == pytest.approx(expected, abs=ROUNDING)
