"""Fault injection: a stage and a probe that fail at random, in the same way for the same seed.

They wrap any stage and probe. Each injected fault is counted by the kind of event that the loop
must report for it, so that a test can compare the counts with the events of the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import isnan, nan

import numpy as np

from macontrol.config.model.errors import ProbeError, StageError
from macontrol.config.model.reward import Reward
from macontrol.hal import Arrival, Backend, Clock, Measurement, Probe, Stage, StageDescription
from macontrol.hal.probe import CLIPPING

DEFAULT_FAULT_RATE = 0.001
"""The probability of a fault per call of a stage or a probe."""

_CLEARLY_LOST_MM = 2e-3


class FaultPlan:
    """Decides call by call, with a seeded generator, whether and which fault is injected."""

    def __init__(self, seed: int, rate: float) -> None:
        self._rng = np.random.default_rng(seed)
        self._rate = rate
        self.injected: Counter[str] = Counter()

    def draw(self, *kinds: str) -> str | None:
        """One of these kinds of fault, or None for no fault."""
        if self._rng.random() >= self._rate:
            return None
        return kinds[int(self._rng.integers(len(kinds)))]

    def amount(self, low: float, high: float) -> float:
        """A random size of a fault."""
        return float(self._rng.uniform(low, high))

    def count(self, event: str) -> None:
        """Count an injected fault by the event that must follow."""
        self.injected[event] += 1


class FaultyStage:
    """A stage that is sometimes slow or silent, or stops short of its target."""

    def __init__(self, stage: Stage, plan: FaultPlan, clock: Clock) -> None:
        self._stage = stage
        self._plan = plan
        self._clock = clock

    @property
    def description(self) -> StageDescription:
        return self._stage.description

    def move_to(self, position_mm: float, deadline_s: float) -> Arrival:
        kind = self._plan.draw("silent", "slow", "lost steps", "garbage")
        if kind == "silent":
            self._plan.count("stage-fault")
            raise StageError("the stage does not answer (injected)")
        if kind == "lost steps":
            return self._lose_steps(position_mm, deadline_s)
        arrival = self._stage.move_to(position_mm, deadline_s)
        if kind == "slow" and arrival.arrived:
            self._plan.count("late-arrival")
            self._clock.sleep_until(deadline_s)
            return Arrival(arrival.position_mm, False, self._clock.now())
        if kind == "garbage":
            self._plan.count("stage-fault")
            return Arrival(nan, arrival.arrived, arrival.time_s)
        return arrival

    def _lose_steps(self, position_mm: float, deadline_s: float) -> Arrival:
        """Stop half-way: the stage reports this position, and that it has arrived."""
        here = self._stage.where(deadline_s).position_mm
        lost = (position_mm - here) / 2
        # A loss within the tolerance of a stage is not a fault.
        if abs(lost) < _CLEARLY_LOST_MM + 2 * self.description.step_mm:
            return self._stage.move_to(position_mm, deadline_s)
        arrival = self._stage.move_to(here + lost, deadline_s)
        if arrival.arrived:
            self._plan.count("stage-fault")
        return arrival

    def where(self, deadline_s: float) -> Arrival:
        if self._plan.draw("silent"):
            self._plan.count("stage-fault")
            raise StageError("the stage does not report its position (injected)")
        return self._stage.where(deadline_s)

    def stop(self) -> None:
        self._stage.stop()

    @property
    def homing_is_due(self) -> bool:
        return self._stage.homing_is_due

    def recover(self, deadline_s: float, keep_on: Callable[[], bool]) -> None:
        self._stage.recover(deadline_s, keep_on)

    def close(self) -> None:
        self._stage.close()


class FaultyProbe:
    """A probe whose measurements are sometimes invalid, late, not numbers, or missing."""

    def __init__(self, probe: Probe, plan: FaultPlan) -> None:
        self._probe = probe
        self._plan = plan
        self._held: list[tuple[int, Measurement]] = []
        self._collections = 0

    def request(self, slot: int, start_s: float, end_s: float) -> None:
        self._probe.request(slot, start_s, end_s)

    def collect(self, deadline_s: float) -> Sequence[Measurement]:
        self._collections += 1
        on_time = []
        for measurement in self._probe.collect(deadline_s):
            kind = self._plan.draw(CLIPPING, "nan", "late")
            if kind == "late":
                due = self._collections + 1 + int(self._plan.amount(0, 5))
                self._held.append((due, measurement))
            elif kind is None:
                on_time.append(measurement)
            else:
                value = Reward(nan) if kind == "nan" else None
                on_time.append(Measurement(measurement.slot, value, kind))
        if self._plan.draw("silent"):
            self._plan.count("probe-fault")
            # An invalid measurement is not another event: the slot is known to have no reward.
            self._held += [(self._collections + 1, m) for m in on_time if _has_reward(m)]
            raise ProbeError("the probe does not answer (injected)")
        late = [m for due, m in self._held if due <= self._collections]
        self._held = [(due, m) for due, m in self._held if due > self._collections]
        for measurement in (*on_time, *late):
            if not _has_reward(measurement):
                self._plan.count("invalid-measurement")
        for measurement in late:
            if _has_reward(measurement):
                self._plan.count("late-reward")
        return [*on_time, *late]

    def close(self) -> None:
        self._probe.close()


def _has_reward(measurement: Measurement) -> bool:
    return measurement.value is not None and not isnan(measurement.value.reward(1.0)[0])


class FaultyBackend:
    """A bench with faults injected into its stage and probe."""

    def __init__(self, backend: Backend, plan: FaultPlan, clock: Clock) -> None:
        self._backend = backend
        self.stage = FaultyStage(backend.stage, plan, clock)
        self.probe = FaultyProbe(backend.probe, plan)

    @property
    def identity(self) -> Mapping[str, str]:
        return self._backend.identity

    def prior_survey(self, positions_mm: Sequence[float]) -> Sequence[float] | None:
        return self._backend.prior_survey(positions_mm)
