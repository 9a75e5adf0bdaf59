"""The order of the blocks of a trial.

A trial has rounds. In each round every policy has one block, in a random order. So a drift of the
channel, the radio or the room reaches all policies alike, and the blocks of one round are a pair.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Block:
    """The slots of one policy in one round."""

    number: int
    """From 1, over the whole trial."""
    round: int
    """From 1."""
    policy: int
    """The index of the policy in the trial."""


@dataclass(frozen=True)
class Plan:
    """What a trial does."""

    policies: tuple[str, ...]
    seed: int
    """Of the order."""
    order: tuple[tuple[int, ...], ...]
    """Per round, the indices of the policies."""
    slots: int
    """Slots per block."""
    settling: int
    """The first slots of each block, which do not count."""

    @classmethod
    def random(
        cls, policies: Sequence[str], rounds: int, *, seed: int, slots: int, settling: int
    ) -> Plan:
        """A plan with an independent random order in each round."""
        rng = np.random.default_rng(seed)
        order = tuple(tuple(rng.permutation(len(policies)).tolist()) for _ in range(rounds))
        return cls(tuple(policies), seed, order, slots, settling)

    @property
    def labels(self) -> tuple[str, ...]:
        """A name for each policy; one that is given again gets a number."""
        seen: Counter[str] = Counter()
        labels = []
        for name in self.policies:
            seen[name] += 1
            labels.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
        return tuple(labels)

    @property
    def blocks(self) -> list[Block]:
        pairs = [(number, one) for number, turn in enumerate(self.order, 1) for one in turn]
        return [Block(at, turn, one) for at, (turn, one) in enumerate(pairs, 1)]
