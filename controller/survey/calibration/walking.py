"""Walk the rail of a bench by a calibration's plan, through the guard, and collect the samples."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from macontrol.config import Config
from macontrol.config.model.errors import PROBE_CODE, ProbeError
from macontrol.controller.recording.events import EventKind
from macontrol.controller.recording.records import Recorder
from macontrol.controller.runtime.approach import Approach
from macontrol.controller.runtime.guard import Guard
from macontrol.controller.runtime.observation import Observation, Rewarding
from macontrol.controller.runtime.patience import Patience
from macontrol.controller.runtime.rail import Rail
from macontrol.controller.runtime.stop import StopToken
from macontrol.controller.survey.calibration.plan import HOP_SAMPLES, Plan
from macontrol.controller.survey.calibration.samples import HOP, STAND, WALK, Sample, Samples
from macontrol.controller.survey.samples import Sample as Measured
from macontrol.controller.survey.samples import Survey, enough
from macontrol.controller.survey.walk import measure_once
from macontrol.hal import Backend, Clock

# Measurements are numbered from here on: before slot 1, and far from those of a survey.
FIRST_SLOT = -400_000_000
_RETRY_S = 0.5
_ROUNDING_S = 1e-6


@dataclass(frozen=True)
class Progress:
    """How far a calibration is."""

    doing: str
    cycle: int
    cycles: int
    left_s: float
    total_s: float


class CalibrationWalk:
    """Measures by a plan; `run` returns the samples."""

    def __init__(
        self,
        config: Config,
        bench: Backend,
        clock: Clock,
        recorder: Recorder,
        *,
        stop: StopToken,
        on_progress: Callable[[Progress], None] = lambda _: None,
    ) -> None:
        guard, self._rail = Guard.of(config, bench.stage), Rail(config)
        self._approach = Approach.before_slots(config, guard, clock, recorder, stop)
        self._slot_s = config.physical.slot_duration_s
        self._probe, self._clock, self._stop = bench.probe, clock, stop
        self._probe_patience = Patience("probe", config.timing.fault_patience_s, clock, recorder)
        self._rewarding = Rewarding(config)
        self._interval_s = config.slot_timing.measure_s
        self._on_progress = on_progress
        self._samples: list[Sample] = []
        self._walks: list[list[Measured]] = []
        self._positions = 0
        """Of a walk."""
        self._invalid: Counter[str] = Counter()
        self._slot = -1
        self._start_s = self._arrival_s = clock.now()
        self._position = float("nan")

    def run(self, plan: Plan) -> Samples:
        """Measure every cycle of the plan; ProbeError if too little is measured.

        A bench that is slower than the plan ends with fewer cycles, but with no fewer than two.
        """
        self._start_s, self._positions = self._clock.now(), len(plan.positions)
        for cycle, place in enumerate(plan.places):
            end_s = self._start_s + (cycle + 1) * plan.cycle_s
            if self._stop.is_set or (cycle > 1 and self._clock.now() > end_s - 2 * plan.walk_s):
                break
            self._report(plan, "walking", cycle)
            self._walk(plan, cycle)
            self._hop(plan, cycle, place)
            self._stand(plan, cycle, place, end_s)
        return Samples.of(self._samples, self._invalid)

    @property
    def walks(self) -> list[Survey]:
        """The walks so far that have enough rewards, each as a survey."""
        since_1970_s = time.time() - self._clock.now()
        return [
            Survey.of(
                [one._replace(unix_s=one.unix_s + since_1970_s) for one in walk],
                walk[-1].unix_s + since_1970_s,
            )
            for walk in self._walks
            if enough(len(walk), self._positions)
        ]

    def _walk(self, plan: Plan, cycle: int) -> None:
        for pair in range(plan.pairs):
            for direction in (1, -1):
                group = 2 * pair + (direction < 0)
                self._walks.append([])
                order = range(len(plan.positions))
                for index in order if direction > 0 else reversed(order):
                    if self._stop.is_set:
                        return
                    self._go_to(float(plan.positions[index]))
                    self._measure(WALK, cycle, group, index, direction)
                self._report(plan, "walking", cycle)

    def _hop(self, plan: Plan, cycle: int, place: float) -> None:
        """Leave the place and come back, and see how the reward settles."""
        gap = float(plan.positions[1] - plan.positions[0])
        beside = place - gap if place > plan.positions[-1] / 2 else place + gap
        self._go_to(beside)
        for hop in range(plan.hops):
            if self._stop.is_set:
                return
            target = place if hop % 2 == 0 else beside
            direction = 1 if target > self._position else -1
            self._go_to(target)
            for index in range(HOP_SAMPLES):
                self._measure(HOP, cycle, hop, index, direction)
        self._report(plan, "hopping", cycle)

    def _stand(self, plan: Plan, cycle: int, place: float, end_s: float) -> None:
        self._go_to(place)
        count = 0
        while not self._stop.is_set:
            if self._clock.now() + self._slot_s > end_s:
                return
            self._measure(STAND, cycle, 0, count, 0)
            count += 1
            if count % 20 == 0:
                self._report(plan, "standing still", cycle)

    def _go_to(self, position: float) -> None:
        self._position = self._rail.clamp(self._approach.run(position))
        self._arrival_s = self._clock.now()

    def _measure(self, part: int, cycle: int, group: int, index: int, direction: int) -> None:
        """One measurement in the next slot; wait for a probe that fails while patience lasts."""
        while not self._stop.is_set:
            self._await_slot()
            begin_s = self._clock.now()
            try:
                found = measure_once(
                    self._probe, self._clock, FIRST_SLOT + self._slot, self._interval_s, self._stop
                )
                with PROBE_CODE:
                    seen = None if found is None else self._rewarding.observe(found)
            except ProbeError as fault:
                self._probe_patience.failed(0, EventKind.PROBE_FAULT, fault)
                self._clock.sleep_until(self._clock.now() + _RETRY_S)
                continue
            self._probe_patience.recovered(0)
            if seen is not None and seen.valid:
                middle_s = begin_s + self._interval_s / 2
                self._keep(seen, middle_s, part, cycle, group, index, direction)
            elif seen is not None:
                self._invalid[seen.reason] += 1
            return

    def _keep(
        self,
        seen: Observation,
        middle_s: float,
        part: int,
        cycle: int,
        group: int,
        index: int,
        direction: int,
    ) -> None:
        clipped = seen.signal.clipped_share
        if part == WALK:
            here = Measured(self._position, seen.reward, seen.uncertainty, middle_s, seen.signal)
            self._walks[-1].append(here)
        self._samples.append(
            Sample(
                middle_s - self._start_s,
                self._slot,
                self._position,
                seen.reward,
                seen.uncertainty,
                seen.above_floor,
                float("nan") if clipped is None else clipped,
                part,
                cycle,
                group,
                index,
                direction,
                middle_s - self._arrival_s,
            )
        )

    def _await_slot(self) -> None:
        """Wait until the present slot has had no measurement, and take its number."""
        elapsed_s = self._clock.now() - self._start_s + _ROUNDING_S
        slot = int(elapsed_s / self._slot_s)
        if slot <= self._slot:
            slot = self._slot + 1
            self._clock.sleep_until(self._start_s + slot * self._slot_s)
        self._slot = slot

    def _report(self, plan: Plan, doing: str, cycle: int) -> None:
        left_s = max(0.0, self._start_s + plan.duration_s - self._clock.now())
        self._on_progress(Progress(doing, cycle + 1, plan.cycles, left_s, plan.duration_s))
