"""The contract of a policy: one test per rule of `macontrol.Policy`.

A subclass whose name begins with `Test` inherits the rules. It names its policy as a config does,
by the name of its entry point or as `package.module:Name`; or it overrides `make`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from math import ceil, isfinite, isnan
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from macontrol.config import Config, load_config
from macontrol.config.model.grid import are_apart
from macontrol.controller.policies.policy import Decision, HasPosterior, HasSurface, Policy
from macontrol.controller.policies.registry import make_policy
from macontrol.controller.survey.samples import Survey
from macontrol.testing.contract import Contract

ROUNDING = 2e-9
"""Positions within this of one another are the same."""

Report: TypeAlias = tuple[str, float, str, float]
"""What follows a decision: where the antenna goes, a share, what happens to the reward, and it."""

reports = st.lists(
    st.tuples(
        st.sampled_from(["as decided", "short", "anywhere"]),
        st.floats(0.0, 1.0),
        st.sampled_from(["seen", "missing", "late", "withdrawn"]),
        st.floats(-5.0, 5.0),
    ),
    min_size=1,
    max_size=40,
)
# A subclass inherits the test of its base, which hypothesis would report. The load of a computer
# is no property of a policy, so no example has a deadline.
many = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.differing_executors]
)


def config_for(draw: st.DrawFn, base: Config) -> Config:
    """A small rail, with a stroke that is not always a whole number of grid steps."""
    spacing = 0.05
    steps = draw(st.sampled_from([1, 2, 9, 40]))
    stroke_steps = draw(st.sampled_from([1.0, 1.3, 2.0, 2.999, 7.5, 50.0]))
    sweep_slots = ceil(steps / stroke_steps - 1e-9)
    return base.replace(
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


configs = st.composite(config_for)


def short_survey(config: Config) -> Survey:
    length = config.physical.region_length
    return Survey(np.array([0.0, length / 3, length]), np.array([1.0, 2.5, 2.0]))


def play(
    policy: Policy, config: Config, following: Iterable[Report]
) -> Iterator[tuple[float, Decision]]:
    """The positions of a run and the decisions there; the antenna may go elsewhere."""
    length, x = config.physical.region_length, policy.start_position
    waiting: list[tuple[int, float, float]] = []
    for slot, (report, share, reward_state, reward) in enumerate(following, start=1):
        if reward_state == "late":
            waiting.append((slot, x, reward))
        elif reward_state != "missing":
            policy.observe(slot, x, reward)
        if reward_state == "withdrawn":
            policy.withdraw(slot)
        if share > 0.8:
            while waiting:
                policy.observe(*waiting.pop())
        decision = policy.decide(slot, x)
        yield x, decision
        x = {
            "as decided": decision.position,
            "short": x + share * (decision.position - x),
            "anywhere": share * length,
        }[report]
        x = min(max(x, 0.0), length)


@cache
def _config_of(preset: str, policy: str) -> Config:
    config = load_config(preset=preset)
    return config.replace(algorithm__policy=policy) if policy else config


class PolicyContract(Contract):
    """The rules of any policy."""

    policy: str = ""
    """The policy, as `algorithm.policy` names it."""
    preset: str = "paper"
    """The preset whose settings the rules start from."""

    def base_config(self) -> Config:
        """The settings that the rules start from; override it for a policy that needs others."""
        return _config_of(self.preset, self.policy)

    def make(self, config: Config, survey: Survey, seed: int = 1) -> Policy:
        assert self.policy, "the subclass names no policy"
        return make_policy(config, survey, seed=seed)

    def make_long(self) -> tuple[Policy, Config]:
        """A policy on a rail of 41 positions, with a window that is longer than a test."""
        config = self.base_config().replace(
            algorithm__grid_spacing=0.05,
            algorithm__window=200,
            algorithm__sweep_period=60,
            physical__region_length=2.0,
            physical__initial_position=1.0,
            physical__actuator_speed_m_per_s=100.0,
            physical__stroke=0.1,
            survey__samples=2,
        )
        return self.make(config, short_survey(config)), config

    # -- Where it starts ----------------------------------------------------------------------

    @given(data=st.data())
    @many
    def test_the_start_is_on_the_rail(self, data: st.DataObject) -> None:
        config = data.draw(configs(self.base_config()))
        policy = self.make(config, short_survey(config))
        assert 0.0 <= policy.start_position <= config.physical.region_length, (
            f"the start must be on the rail: it is {policy.start_position}"
        )

    # -- Decisions ----------------------------------------------------------------------------

    def run_any(
        self, data: st.DataObject, following: Sequence[Report]
    ) -> Iterator[tuple[Policy, Config, float, Decision]]:
        config = data.draw(configs(self.base_config()))
        policy = self.make(config, short_survey(config))
        for x, decision in play(policy, config, following):
            yield policy, config, x, decision

    @given(data=st.data(), following=reports)
    @many
    def test_every_step_is_within_reach(self, data: st.DataObject, following: list[Report]) -> None:
        for _, config, x, decision in self.run_any(data, following):
            assert abs(decision.position - x) <= config.physical.rho_max + ROUNDING, (
                f"every step must be within the stroke: from {x} to {decision.position}"
            )

    @given(data=st.data(), following=reports)
    @many
    def test_every_position_is_on_the_rail(
        self, data: st.DataObject, following: list[Report]
    ) -> None:
        for _, config, _, decision in self.run_any(data, following):
            assert 0.0 <= decision.position <= config.physical.region_length, (
                f"every position must be on the rail: it is {decision.position}"
            )

    @given(data=st.data(), following=reports)
    @many
    def test_every_target_is_on_the_rail(
        self, data: st.DataObject, following: list[Report]
    ) -> None:
        for _, config, _, decision in self.run_any(data, following):
            assert 0.0 <= decision.target <= config.physical.region_length, (
                f"every target must be on the rail: it is {decision.target}"
            )

    @given(data=st.data(), following=reports)
    @many
    def test_a_transit_leads_to_a_target_beyond_the_next_position(
        self, data: st.DataObject, following: list[Report]
    ) -> None:
        for _, _, _, decision in self.run_any(data, following):
            assert decision.transit == (abs(decision.target - decision.position) > 1e-9), (
                f"a transit is a target beyond the next position: {decision}"
            )

    def test_a_switch_is_a_target_that_differs_from_the_previous_one(self) -> None:
        policy, config = self.make_long()
        following: list[Report] = [
            ("as decided", 0.0, "seen", reward)
            for reward in np.random.default_rng(1).uniform(-3.0, 3.0, 50)
        ]
        decisions = [decision for _, decision in play(policy, config, following)]
        for before, decision in pairwise(decisions):
            assert decision.switched == are_apart(decision.target, before.target), (
                f"a switch is a target that differs from the previous one: {before}, {decision}"
            )

    @given(data=st.data(), following=reports)
    @many
    def test_a_shortfall_is_not_negative(
        self, data: st.DataObject, following: list[Report]
    ) -> None:
        for _, _, _, decision in self.run_any(data, following):
            assert isnan(decision.shortfall) or decision.shortfall >= -1e-9, (
                f"a shortfall must not be negative: it is {decision.shortfall}"
            )

    def test_the_same_seed_gives_the_same_decisions(self) -> None:
        following: list[Report] = [
            ("as decided", 0.0, "seen", reward)
            for reward in np.random.default_rng(2).uniform(-3.0, 3.0, 50)
        ]
        one, other = (
            [decision[:4] for _, decision in play(*self.make_long(), following)] for _ in range(2)
        )
        assert one == other, "the same seed must give the same decisions"

    def require_decisions(self, following: Sequence[Report], rule: str) -> None:
        """The policy decides in every one of these slots."""
        policy, config = self.make_long()
        try:
            for _, decision in play(policy, config, following):
                assert isfinite(decision.position), f"{rule}: {decision}"
        except Exception as error:
            pytest.fail(f"{rule}; the policy raises {error!r}")

    # -- Rewards ------------------------------------------------------------------------------

    def test_slots_can_have_no_reward(self) -> None:
        self.require_decisions(
            [("as decided", 0.0, "missing", 0.0)] * 30, "a slot can have no reward"
        )

    def test_a_reward_can_be_late(self) -> None:
        following: list[Report] = [("as decided", 0.0, "late", 1.0)] * 9
        following += [("as decided", 1.0, "seen", 1.0)] * 21
        self.require_decisions(following, "a reward can be late, and out of order")

    def test_a_withdrawn_reward_is_forgotten(self) -> None:
        rewards = np.random.default_rng(3).uniform(-1.0, 3.0, 40)
        forgotten: list[Report] = []
        never: list[Report] = []
        for slot, reward in enumerate(rewards):
            is_withdrawn = slot % 3 == 2
            state, value = ("withdrawn", 30.0) if is_withdrawn else ("seen", float(reward))
            forgotten.append(("as decided", 0.0, state, value))
            never.append(("as decided", 0.0, "missing" if is_withdrawn else "seen", value))
        after, before = (
            [decision.position for _, decision in play(*self.make_long(), following)]
            for following in (forgotten, never)
        )
        assert not any(are_apart(*pair) for pair in zip(after, before, strict=True)), (
            "a withdrawn reward must be forgotten: the decisions differ"
        )

    def test_a_slot_without_a_reward_can_be_withdrawn(self) -> None:
        policy, _ = self.make_long()
        try:
            policy.withdraw(1)
            assert isfinite(policy.decide(1, policy.start_position).position)
        except Exception as error:
            pytest.fail(f"a slot without a reward can be withdrawn: {error!r}")

    # -- Continuing ---------------------------------------------------------------------------

    def test_a_resumed_policy_continues_with_its_target(self) -> None:
        for target in (0.2, 1.5):
            policy, _ = self.make_long()
            policy.resume(target)
            for slot in range(1, 6):
                policy.observe(slot, target, 2.0 + slot / 10)
            decision = policy.decide(6, target)
            assert decision.switched == are_apart(decision.target, target), (
                f"a resumed policy must continue with its target {target}: {decision}"
            )

    # -- Capabilities -------------------------------------------------------------------------

    def test_a_surface_covers_the_grid(self) -> None:
        policy, config = self.make_long()
        policy.observe(1, policy.start_position, 1.0)
        policy.decide(1, policy.start_position)
        if isinstance(policy, HasSurface):
            assert policy.margin >= 0, "a margin must not be negative"
            assert policy.surface.shape == (len(config.grid.points),), "a surface covers the grid"
            assert np.isfinite(policy.surface).all(), "a surface must be finite"

    def test_a_shortfall_is_that_of_the_surface(self) -> None:
        policy, config = self.make_long()
        for slot in range(1, 20):
            x = policy.start_position
            policy.observe(slot, x, float(slot % 5))
            decision = policy.decide(slot, x)
            if isnan(decision.shortfall):
                continue  # a policy that searches within reach only has none either
            if isinstance(policy, HasSurface):
                kept = policy.surface[config.grid.nearest(decision.target)]
                assert abs(decision.shortfall - (policy.surface.max() - kept)) <= 1e-9, (
                    "a shortfall is the maximum of the surface minus its value at the target"
                )
            else:
                pytest.fail("without a surface the shortfall must be NaN")

    def test_a_posterior_covers_the_grid(self) -> None:
        policy, config = self.make_long()
        policy.observe(1, policy.start_position, 1.0)
        policy.decide(1, policy.start_position)
        if isinstance(policy, HasPosterior):
            posterior, shape = policy.posterior, (len(config.grid.points),)
            assert posterior.mean.shape == posterior.variance.shape == shape, (
                "a posterior covers the grid"
            )
            assert np.isfinite(posterior.mean).all(), "a mean must be finite"
            assert (posterior.variance >= -1e-9).all(), "a variance must not be negative"
