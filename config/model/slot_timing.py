"""How the time of a slot is divided: actuation, measurement, decision.

    0                  T_a   + guard                    T_s − decision      T_s
    ├──────────────────┼─────┼──────────────────────────┼───────────────────┤
    │ actuation              │ measurement              │ decision          │

The guard interval covers what it costs to wake up and to command the stage. The run, the survey
and the checks of a config take the measuring interval from here: it is that of a slot that spends
all of T_a. In a slot that spends less (`Actuation`) the measurement begins earlier.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class SlotTiming:
    """The phases of a slot, in seconds from its start."""

    slot_s: float
    """T_s."""
    actuation_end_s: float
    """T_a and the guard interval: the stage has arrived, the measurement begins."""
    measure_end_s: float
    """The measurement ends, the decision begins."""
    guard_s: float = 0.0
    """The guard interval after the actuation."""

    @classmethod
    def from_shares(
        cls, slot_s: float, actuation_s: float, *, guard_share: float, decision_share: float
    ) -> SlotTiming:
        """The phases from T_s, T_a and the shares of T_s for the guard and the decision."""
        guard_s = guard_share * slot_s
        return cls(slot_s, actuation_s + guard_s, slot_s * (1.0 - decision_share), guard_s)

    def measure_begin_s(self, actuation_s: float) -> float:
        """The start of the measurement in a slot that spends τ_t on its actuation."""
        return actuation_s + self.guard_s

    @property
    def measure_s(self) -> float:
        """The measuring interval; not above 0 if the other phases leave no time."""
        return self.measure_end_s - self.actuation_end_s

    @property
    def decide_s(self) -> float:
        """The time for the decision."""
        return self.slot_s - self.measure_end_s

    def with_decision_of(self, seconds: float) -> SlotTiming:
        """Reserve at least this time for the decision, but at most half of what T_a leaves."""
        most_s = (self.slot_s - self.actuation_end_s) / 2
        end_s = min(self.measure_end_s, self.slot_s - min(seconds, most_s))
        return replace(self, measure_end_s=end_s)


def shortest_slot_s(busy_s: float, *, guard_share: float, decision_share: float) -> float:
    """The T_s that leaves `busy_s` for T_a and the measurement beside guard and decision."""
    return busy_s / (1 - (guard_share + decision_share))
