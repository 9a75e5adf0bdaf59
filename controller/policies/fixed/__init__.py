"""The fixed antenna, a baseline of the paper."""

from __future__ import annotations

from math import nan

from macontrol.controller.policies.description import PolicyDescription, PolicyInputs
from macontrol.controller.policies.policy import Decision, Policy


class Fixed:
    """A conventional antenna: it stays at its start position."""

    def __init__(self, start_position: float) -> None:
        self.start_position = start_position

    def resume(self, target: float) -> None:
        """A fixed antenna has no target other than its position."""

    def observe(self, slot: int, position: float, reward: float) -> None:
        """A fixed antenna learns nothing."""

    def withdraw(self, slot: int) -> None:
        """A fixed antenna has nothing to forget."""

    def decide(self, slot: int, position: float) -> Decision:
        return Decision(position, position, False, False, nan)


def build(inputs: PolicyInputs) -> Policy:
    return Fixed(inputs.start_position)


DESCRIPTION = PolicyDescription(
    name="fixed",
    summary="a conventional antenna at its start position",
    build=build,
    uses=frozenset(),
)
