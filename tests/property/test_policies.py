"""Every registered policy keeps the contract of `macontrol.testing`, and uses its whole stroke.

Whatever the antenna reports (it may stand between grid points, or not where it was sent), and
whichever rewards are missing or late.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from macontrol.config import load_config
from macontrol.config.policies import POLICIES
from macontrol.controller.policies.registry import make_policy
from macontrol.controller.survey.samples import Survey
from macontrol.testing import PolicyContract
from macontrol.testing.policy_contract import ROUNDING, Report, many, reports

PAPER = load_config()


class OwnPolicyContract(PolicyContract):
    """What our policies do beyond the contract."""

    @given(data=st.data(), following=reports)
    @many
    def test_a_step_towards_a_target_beyond_reach_is_a_full_stroke(
        self, data: st.DataObject, following: list[Report]
    ) -> None:
        for _, config, x, decision in self.run_any(data, following):
            if decision.transit:
                stroke = config.physical.rho_max
                assert abs(decision.position - x) >= stroke - ROUNDING
            else:
                assert decision.position == pytest.approx(decision.target, abs=ROUNDING)


globals().update(
    {
        (title := f"Test{name.title().replace('-', '')}"): type(
            title, (OwnPolicyContract,), {"policy": name, "__module__": __name__}
        )
        for name in POLICIES.names()
    }
)


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
