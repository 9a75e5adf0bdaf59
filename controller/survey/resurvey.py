"""A survey within a run: a policy that walks the rail and keeps one reward per survey position.

The loop runs it like any other policy, so the guard, late rewards and recovery are those of a slot.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from math import isfinite, nan

from macontrol.config import Config
from macontrol.config.model.grid import are_apart
from macontrol.controller.policies.policy import Decision
from macontrol.controller.runtime.observation import Observation
from macontrol.controller.survey.samples import Sample, Survey, require_enough

# Slots at one position without its reward: a late reward may arrive some slots later.
_MOST_SLOTS = 10
# A position may be off by this share of the distance of grid points, or by a step of the stage.
_TOLERANCE = 0.25


class Resurvey:
    """Walks from the nearer end of the rail to the other; `is_done` at the end."""

    def __init__(self, config: Config) -> None:
        self.start_position = config.physical.x_0
        self._grid, self._stroke = config.grid, config.physical.rho_max
        self._positions = [float(x) for x in config.survey_positions]
        self._has_begun = False
        step_mm = config.physical.step_mm
        step = 0.0 if step_mm == "ideal" else config.physical.to_wavelengths(step_mm)
        self._tolerance = max(_TOLERANCE * self._grid.spacing, step)
        self._seen: dict[int, tuple[int, Sample]] = {}
        """By the index of the survey position: the slot, and the sample."""
        self._slots_here = 0
        self._slot = 0
        self._slot_s = config.physical.slot_duration_s
        self._measure_s = config.slot_timing.measure_s
        self.done = 0
        """How many positions were visited."""

    @property
    def positions(self) -> int:
        """How many positions there are."""
        return len(self._positions)

    @property
    def is_done(self) -> bool:
        return self.done == len(self._positions)

    def take(self, arrived: Iterable[tuple[Observation, float]]) -> None:
        """Keep the rewards at survey positions, with what else is known of them."""
        if not self._has_begun:
            return
        for seen, where in arrived:
            for index in (self.done, *range(self.done - 1, -1, -1)):
                if index < len(self._positions) and self._is_at(index, where):
                    sample = Sample(
                        where, seen.reward, seen.uncertainty, self._unix_s(seen.slot), seen.signal
                    )
                    self._seen.setdefault(index, (seen.slot, sample))
                    break

    def _unix_s(self, slot: int) -> float:
        """When a slot was measured; taken soon after the measurement of the slot `_slot + 1`."""
        return time.time() - (self._slot + 1 - slot) * self._slot_s - self._measure_s / 2

    def observe(self, slot: int, position: float, reward: float) -> None:
        """`take` keeps the rewards."""

    def withdraw(self, slot: int) -> None:
        self._seen = {index: kept for index, kept in self._seen.items() if kept[0] != slot}

    def resume(self, target: float) -> None:
        """A survey has no target."""

    def decide(self, slot: int, position: float) -> Decision:
        self._slot = slot
        if not self._has_begun:
            self._has_begun = True
            if position > self._grid.length / 2:
                self._positions.reverse()
        self._advance(position)
        if self.is_done:
            return Decision(position, position, False, False, nan)
        target = self._positions[self.done]
        step = self._grid.advance(position, target, self._stroke)
        return Decision(target, step, False, are_apart(target, step), nan)

    def survey(self) -> Survey:
        """The survey; ProbeError if too few positions have a reward."""
        require_enough(len(self._seen), len(self._positions))
        return Survey.of([sample for _, sample in self._seen.values()])

    def _advance(self, position: float) -> None:
        """Continue to the next position if this one has its reward, or after enough slots."""
        while not self.is_done:
            if not (self.done in self._seen and self._is_at(self.done, position)):
                if abs(self._positions[self.done] - position) <= self._stroke:
                    self._slots_here += 1
                if self._slots_here <= _MOST_SLOTS:
                    return
            self.done += 1
            self._slots_here = 0

    def _is_at(self, index: int, position: float) -> bool:
        return isfinite(position) and abs(self._positions[index] - position) <= self._tolerance
