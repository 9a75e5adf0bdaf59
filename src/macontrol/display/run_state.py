"""The state of a run as plain data, which the live view gets a few times per second."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isnan, nan
from typing import Any

import numpy as np

from macontrol.config import Config
from macontrol.config.model.reward import snr_of
from macontrol.config.model.units import to_db
from macontrol.controller.policies.policy import HasPosterior
from macontrol.controller.recording.tally import Tally
from macontrol.controller.runtime.loop import SlotLoop

_POINTS = 120
"""Points of the estimate along the rail: more than a terminal shows."""


@dataclass(frozen=True)
class RunFacts:
    """A run and its constant facts."""

    title: str
    length: float
    to_mm: Callable[[float], float]
    slot_s: float
    g_max: float
    transmission_share: float
    loop: SlotLoop

    @classmethod
    def of(cls, config: Config, name: str, loop: SlotLoop) -> RunFacts:
        physical = config.physical
        return cls(
            title=f"{config.algorithm.policy} on {name}",
            length=physical.region_length,
            to_mm=physical.to_mm,
            slot_s=physical.slot_duration_s,
            g_max=config.g_max,
            transmission_share=physical.transmission_share,
            loop=loop,
        )

    def state(self) -> dict[str, Any]:
        """The run now. The slot thread is running, so values can differ by one slot."""
        tally, planned = self.loop.tally, self.loop.timing
        position = tally.position
        return {
            "title": self.title,
            "length": self.length,
            "length_mm": self.to_mm(self.length),
            "slot_s": self.slot_s,
            "g_max": self.g_max,
            "doing": self.loop.activity,
            "slot": tally.slot,
            "slots": tally.slots,
            "position": position,
            "position_mm": self.to_mm(position),
            "target": tally.target,
            "target_mm": self.to_mm(tally.target),
            "reward": tally.reward,
            "recent": tally.recent_reward,
            "snr_db": snr_db(tally, self.transmission_share),
            "switches": tally.switches,
            "travel": tally.travel,
            "travel_mm": self.to_mm(tally.travel),
            "transit": tally.transit,
            "late": tally.late,
            "missed": tally.missed,
            "faults": tally.stage_faults + tally.probe_faults + tally.refused,
            "invalid": tally.invalid,
            "phases": {
                name: [phase.at(50), phase.at(99), phase.largest, limit]
                for name, phase, limit in (
                    ("wake-up", tally.wake, planned.actuation_end_s),
                    ("actuate", tally.actuate, planned.actuation_end_s),
                    ("measure", tally.measure, planned.measure_s),
                    ("decide", tally.decide, planned.decide_s),
                )
            },
            **self._estimate(position),
        }

    def _estimate(self, position: float) -> dict[str, Any]:
        """The posterior along the rail, and at the antenna."""
        policy = self.loop.decision.policy  # a survey within the run replaces it
        if not isinstance(policy, HasPosterior):
            return {"estimate": [], "estimate_here": nan, "deviation_here": nan}
        posterior = policy.posterior
        mean, variance = posterior.mean, posterior.variance
        here = posterior.grid.nearest(position)
        shown = np.linspace(0, len(mean) - 1, min(_POINTS, len(mean))).round().astype(int)
        return {
            "estimate": np.round(mean[shown], 3).tolist(),
            "estimate_here": float(mean[here]),
            "deviation_here": max(float(variance[here]), 0.0) ** 0.5,
        }


def snr_db(tally: Tally, holding_share: float) -> float:
    """The SNR in dB of the recent reward (1 − τ_t/T_s)·log2(1 + SNR)."""
    share = holding_share if isnan(tally.recent_share) else tally.recent_share
    try:
        snr = snr_of(share, tally.recent_reward)
    except OverflowError:
        return inf
    return to_db(snr) if snr > 0 else nan
