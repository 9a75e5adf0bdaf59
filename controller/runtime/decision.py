"""The decision phase: the policy observes the rewards and decides the next position."""

from __future__ import annotations

from collections.abc import Iterable

from macontrol.controller.policies.policy import Decision, HasSurface, Policy
from macontrol.controller.policies.theory import SurfaceMeter
from macontrol.hal import Measurement


class DecisionPhase:
    """Runs a policy. Positions in wavelengths."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._surface = policy if isinstance(policy, HasSurface) else None
        self._meter = SurfaceMeter()

    def run(
        self, slot: int, position: float, arrived: Iterable[tuple[Measurement, float]]
    ) -> Decision:
        """Observe what arrived, then decide."""
        for measurement, where in arrived:
            self._policy.observe(measurement.slot, where, measurement.reward)
        return self._policy.decide(slot, position)

    def surface_movement(self) -> float | None:
        """sup|F_t − F_{t−1}| (Lemma 2), for a policy with a surface; call it once per slot."""
        return None if self._surface is None else self._meter.update(self._surface.surface)
