"""Policies that break one rule each; `test_wrong_drivers.py` runs the suite on every one of them.

All are variants of one policy that keeps every rule.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from macontrol.config import Config, load_config
from macontrol.controller.policies.policy import Decision, Policy
from macontrol.controller.survey.samples import Survey
from macontrol.testing import PolicyContract

Array: TypeAlias = NDArray[np.float64]


class RightPolicy:
    """It goes somewhere else after each surprise."""

    margin = 0.0

    def __init__(self, config: Config) -> None:
        self.grid, self.stroke = config.grid, config.physical.rho_max
        self.start_position = self.grid.snap(config.physical.x_0)
        self.target = self.start_position
        self.samples: dict[int, tuple[float, float]] = {}
        self.posterior = self

    def resume(self, target: float) -> None:
        self.target = target

    def observe(self, slot: int, position: float, reward: float) -> None:
        self.samples[slot] = (reward, position)

    def withdraw(self, slot: int) -> None:
        self.samples.pop(slot, None)

    def choose(self) -> float:
        """Keep the target until a reward is a surprise."""
        rewards = (self.samples[slot][0] for slot in sorted(self.samples))
        surprises = [reward for reward in rewards if not 0 <= reward <= 5]
        index = int(abs(sum(surprises)) * 10) % len(self.grid.points)
        return float(self.grid.points[index]) if surprises else self.target

    @property
    def surface(self) -> Array:
        """It decreases with the distance from the target."""
        points = np.asarray(self.grid.points, dtype=np.float64)
        surface: Array = -np.abs(points - points[self.grid.nearest(self.target)])
        return surface

    @property
    def mean(self) -> Array:
        return np.zeros(len(self.grid.points))

    variance = mean

    def decide(self, slot: int, position: float) -> Decision:
        before, self.target = self.target, self.choose()
        ahead = position + min(max(self.target - position, -self.stroke), self.stroke)
        is_switch, is_transit = abs(self.target - before) > 1e-9, abs(self.target - ahead) > 1e-9
        return Decision(self.target, ahead, is_switch, is_transit, 0.0)


class WrongPolicy(PolicyContract):
    """The suite for a policy of this module."""

    policy_class: ClassVar[type[Any]] = RightPolicy
    breaks: ClassVar[tuple[str, ...]] = ()

    def base_config(self) -> Config:
        return PAPER

    def make(self, config: Config, survey: Survey, seed: int = 1) -> Policy:
        policy: Policy = self.policy_class(config)
        return policy


PAPER = load_config()


def breaks(*rules: str) -> Callable[[type[RightPolicy]], type[RightPolicy]]:
    """Register a policy that breaks these rules."""

    def register(policy: type[RightPolicy]) -> type[RightPolicy]:
        title = f"Test{policy.__name__}"
        body = {"policy_class": policy, "breaks": rules, "__module__": __name__}
        globals()[title] = type(title, (WrongPolicy,), body)
        return policy

    return register


breaks()(RightPolicy)


@breaks("test_the_start_is_on_the_rail")
class StartsOffTheRail(RightPolicy):
    def __init__(self, config: Config) -> None:
        super().__init__(config)
        if config.physical.region_length < 1.0:
            self.start_position = -0.01


class Changed(RightPolicy):
    """It changes the decision."""

    def decide(self, slot: int, position: float) -> Decision:
        return self.changed(super().decide(slot, position), position)

    def changed(self, decision: Decision, position: float) -> Decision:
        return decision


@breaks("test_every_step_is_within_reach")
class Leaps(RightPolicy):
    def decide(self, slot: int, position: float) -> Decision:
        self.stroke *= 1.01
        return super().decide(slot, position)


@breaks("test_every_position_is_on_the_rail")
class PassesTheEnd(Changed):
    def changed(self, decision: Decision, position: float) -> Decision:
        return decision._replace(position=-1e-10) if decision.position == 0.0 else decision


@breaks("test_every_target_is_on_the_rail")
class AimsPastTheEnd(Changed):
    def changed(self, decision: Decision, position: float) -> Decision:
        return decision._replace(target=-1e-10) if decision.target == 0.0 else decision


@breaks("test_a_transit_leads_to_a_target_beyond_the_next_position")
class HidesATransit(Changed):
    def changed(self, decision: Decision, position: float) -> Decision:
        return decision._replace(transit=False)


@breaks("test_a_switch_is_a_target_that_differs_from_the_previous_one")
class HidesASwitch(Changed):
    def changed(self, decision: Decision, position: float) -> Decision:
        return decision._replace(switched=False)


@breaks("test_a_resumed_policy_continues_with_its_target")
class ForgetsItsTarget(RightPolicy):
    def resume(self, target: float) -> None:
        """The target of the earlier run is lost."""


@breaks("test_a_shortfall_is_not_negative", "test_a_shortfall_is_that_of_the_surface")
class HasANegativeShortfall(Changed):
    def changed(self, decision: Decision, position: float) -> Decision:
        return decision._replace(shortfall=-1.0)


@breaks("test_a_shortfall_is_that_of_the_surface")
class HasAnotherShortfall(Changed):
    def changed(self, decision: Decision, position: float) -> Decision:
        return decision._replace(shortfall=0.7)


@breaks("test_the_same_seed_gives_the_same_decisions")
class DiffersFromRunToRun(Changed):
    runs = count()

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.run, self.slots = next(self.runs), 0

    def changed(self, decision: Decision, position: float) -> Decision:
        self.slots += 1  # in slot 50 only, which no other rule reaches
        if self.slots == 50 and self.run % 2:
            return decision._replace(position=position, transit=decision.target != position)
        return decision


@breaks("test_slots_can_have_no_reward")
class NeedsARewardInEverySlot(RightPolicy):
    silent = 0

    def observe(self, slot: int, position: float, reward: float) -> None:
        super().observe(slot, position, reward)
        self.silent = 0

    def decide(self, slot: int, position: float) -> Decision:
        self.silent += 1
        if self.silent > 20 and not self.samples:
            raise KeyError(slot)
        return super().decide(slot, position)


@breaks("test_a_reward_can_be_late")
class NeedsRewardsInOrder(RightPolicy):
    late = 0

    def observe(self, slot: int, position: float, reward: float) -> None:
        self.late += bool(self.samples) and slot < max(self.samples)
        if self.late >= 9 and len({reward for reward, _ in self.samples.values()}) == 1:
            raise ValueError("the rewards are not in order")
        super().observe(slot, position, reward)


@breaks("test_a_withdrawn_reward_is_forgotten")
class KeepsAWithdrawnReward(RightPolicy):
    def withdraw(self, slot: int) -> None:
        """The reward stays."""


@breaks("test_a_slot_without_a_reward_can_be_withdrawn")
class WithdrawsOnlyWhatItHas(RightPolicy):
    def withdraw(self, slot: int) -> None:
        del self.samples[slot]


@breaks("test_a_surface_covers_the_grid")
class HasANegativeMargin(RightPolicy):
    margin = -1.0


@breaks("test_a_posterior_covers_the_grid")
class HasAShortMean(RightPolicy):
    @property
    def mean(self) -> Array:
        return np.zeros(3)


@breaks("test_a_posterior_covers_the_grid")
class HasANegativeVariance(RightPolicy):
    @property
    def variance(self) -> Array:
        return np.full(len(self.grid.points), -1.0)


class WithoutSurface:
    """A policy without capabilities, and a shortfall all the same."""

    def __init__(self, config: Config) -> None:
        right = RightPolicy(config)
        self.start_position = right.start_position
        self.resume, self.observe = right.resume, right.observe
        self.withdraw, self.decide = right.withdraw, right.decide


class TestWithoutSurface(WrongPolicy):
    policy_class = WithoutSurface
    breaks = ("test_a_shortfall_is_that_of_the_surface",)
