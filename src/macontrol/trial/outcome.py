"""The result of a trial: mean rewards and paired differences with confidence intervals.

The statistics see one number per block, its mean reward. Rewards within a block may be correlated:
what counts is the scatter of the differences between rounds. The difference of two policies in a
round is free of whatever both blocks have in common, such as a slow drift. The differences of n
rounds give their mean and, with Student's t for n - 1 degrees of freedom, its confidence interval.
This assumes that the differences of different rounds are independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from macontrol.trial.plan import Plan

CONFIDENCE = 0.95
METHOD = (
    f"{CONFIDENCE:.0%} confidence intervals from the differences within rounds (Student's t); "
    "autocorrelation within a block does not matter, and each interval stands for itself"
)


@dataclass(frozen=True)
class BlockResult:
    """What was measured in one block, without its settling slots."""

    number: int
    round: int
    policy: str
    """Its label in the trial."""
    is_complete: bool
    """Whether all its slots were run."""
    slots: int
    """Slots that count."""
    rewards: int
    """How many of them have a reward."""
    reward: float | None
    """The mean reward; None without any."""
    travel_mm: float
    switches: int
    run_file: str | None


@dataclass(frozen=True)
class Difference:
    """How much more reward a policy has than the first one, per slot."""

    policy: str
    first: str
    rounds: int
    mean: float
    half_width: float | None
    """Of the confidence interval; None with fewer than two rounds."""

    @property
    def low(self) -> float | None:
        return None if self.half_width is None else self.mean - self.half_width

    @property
    def high(self) -> float | None:
        return None if self.half_width is None else self.mean + self.half_width

    @property
    def verdict(self) -> str:
        """ "better" or "worse" if the interval is on one side of 0, else "level"."""
        if self.half_width is None:
            return "unknown"
        if abs(self.mean) <= self.half_width:
            return "level"
        return "better" if self.mean > 0 else "worse"


@dataclass(frozen=True)
class PolicyResult:
    """The means of one policy over the rounds that count."""

    policy: str
    reward: float | None
    rewarded_share: float | None
    """The share of the slots that have a reward."""
    travel_mm: float
    """The sum over the rounds."""
    switches: int


@dataclass(frozen=True)
class Outcome:
    """The result of a trial, over its complete rounds."""

    plan: Plan
    blocks: tuple[BlockResult, ...]
    rounds: tuple[int, ...]
    """The rounds that count: those in which every policy has a complete block with a reward."""
    policies: tuple[PolicyResult, ...]
    differences: tuple[Difference, ...]


def outcome_of(plan: Plan, blocks: Sequence[BlockResult]) -> Outcome:
    """Evaluate the blocks of a trial that may have ended early."""
    found = {(b.round, b.policy): b for b in blocks if b.is_complete and b.reward is not None}
    labels = plan.labels
    rounds = tuple(
        number
        for number in range(1, len(plan.order) + 1)
        if all((number, label) in found for label in labels)
    )
    of = {label: [found[number, label] for number in rounds] for label in labels}
    rewards = {label: np.array([b.reward for b in of[label]], float) for label in labels}
    return Outcome(
        plan,
        tuple(blocks),
        rounds,
        tuple(_mean_of(label, of[label], rewards[label]) for label in labels),
        tuple(
            difference(labels[0], rewards[labels[0]], label, rewards[label])
            for label in labels[1:]
            if rounds
        ),
    )


def difference(
    first: str, of_first: NDArray[np.float64], policy: str, of_policy: NDArray[np.float64]
) -> Difference:
    """d ± t_{n-1}·s_d/√n over the differences d of n rounds."""
    differences = of_policy - of_first
    rounds = len(differences)
    half_width = None
    if rounds > 1:
        error = float(differences.std(ddof=1)) / sqrt(rounds)
        half_width = float(stdtrit(rounds - 1, 0.5 + CONFIDENCE / 2)) * error
    return Difference(policy, first, rounds, float(differences.mean()), half_width)


def _mean_of(
    label: str, blocks: Sequence[BlockResult], rewards: NDArray[np.float64]
) -> PolicyResult:
    slots = sum(block.slots for block in blocks)
    mean = float(rewards.mean()) if len(rewards) else None
    return PolicyResult(
        label,
        mean if mean is not None and isfinite(mean) else None,
        sum(block.rewards for block in blocks) / slots if slots else None,
        sum(block.travel_mm for block in blocks),
        sum(block.switches for block in blocks),
    )
