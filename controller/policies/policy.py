"""What a policy is: it sees the reward where the antenna stands and says where to stand next.

One implementation of each policy serves the slot loop, replay and campaigns alike. Slot t is:
`observe(t, x_t, r_t)`, unless no valid reward came, then `decide(t, x_t)` for x_{t+1}.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Decision(NamedTuple):
    """What was decided after a slot. Positions are in wavelengths."""

    target: float
    """z_t: where the antenna is headed."""
    position: float
    """x_{t+1}: where it shall stand in the next slot, within reach."""
    switched: bool
    """Whether the target is another one than a slot before."""
    transit: bool
    """Whether the target lies beyond the next position."""
    shortfall: float
    """max F_t − F_t(z_t): what holding on to the target gives up; NaN without a surface F_t."""


class Policy(Protocol):
    """A rule for positioning the antenna."""

    @property
    def start_position(self) -> float:
        """Get the position x_1 the antenna takes before slot 1, in wavelengths."""
        ...

    def resume(self, target: float) -> None:
        """Take up the target of a run that this one continues; its samples come by `observe`."""
        ...

    def observe(self, slot: int, position: float, reward: float) -> None:
        """Take in the reward seen in a slot; it may come late, and some slots have none."""
        ...

    def withdraw(self, slot: int) -> None:
        """Forget the reward of a slot: there was no signal in it."""
        ...

    def decide(self, slot: int, position: float) -> Decision:
        """Choose the position of the next slot, given where the antenna is in this one."""
        ...
