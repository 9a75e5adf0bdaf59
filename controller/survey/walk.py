"""The warm-up survey on a real rail: go to each position, stand still, measure."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from macontrol.config import Config
from macontrol.config.model.errors import PROBE_CODE, ProbeError
from macontrol.controller.recording.events import EventKind
from macontrol.controller.recording.records import Recorder
from macontrol.controller.runtime.approach import Approach
from macontrol.controller.runtime.guard import Guard
from macontrol.controller.runtime.observation import Observation, Rewarding
from macontrol.controller.runtime.patience import Patience
from macontrol.controller.runtime.rail import Rail
from macontrol.controller.runtime.signal_watch import SignalWatch
from macontrol.controller.runtime.stop import StopToken
from macontrol.controller.survey.samples import Sample, Survey, enough, require_enough
from macontrol.hal import Backend, Clock, Measurement, Probe
from macontrol.hal.probe import NO_SIGNAL, TONE_LOST

_ATTEMPTS = 3
# A measurement may arrive this long after the end of its interval.
_LATE_S = 3.0
# Time between attempts while the probe fails.
_RETRY_S = 0.5
# Measurements are numbered from here on: far enough before slot 1.
_FIRST_NUMBER = -500_000
_NOTHING = ProbeError(
    "no measurement arrives", "see what `macontrol check` reports about the probe"
)


def walk_rail(
    config: Config,
    bench: Backend,
    clock: Clock,
    recorder: Recorder,
    *,
    stop: StopToken,
    may_move: Callable[[], bool] | None = None,
    on_progress: Callable[[int], None] = lambda _: None,
) -> Survey:
    """Walk a bench's rail once, from left to right, and measure at each position: see `rail_walk`.

    The survey of a run that is stopped has the positions up to there.
    """
    walk = rail_walk(config, bench, clock, recorder, stop=stop, may_move=may_move)
    return walk.run(config.survey_positions, on_progress=on_progress)


def rail_walk(
    config: Config,
    bench: Backend,
    clock: Clock,
    recorder: Recorder,
    *,
    stop: StopToken,
    may_move: Callable[[], bool] | None = None,
) -> SurveyWalk:
    """Walks along a bench's rail, stroke by stroke through the guard.

    `may_move` is called before each stroke. It may wait; no stroke follows once it returns False.
    """
    guard, rail = Guard.of(config, bench.stage), Rail(config)
    approach = Approach.before_slots(config, guard, clock, recorder, stop, may_move)

    def go_to(position: float) -> float:
        return rail.clamp(approach.run(position))

    return SurveyWalk(config, bench.probe, clock, go_to, recorder, stop)


class SurveyWalk:
    """Walks the rail, once per `run`. `go_to` brings the antenna to a position (wavelengths)."""

    def __init__(
        self,
        config: Config,
        probe: Probe,
        clock: Clock,
        go_to: Callable[[float], float],
        recorder: Recorder,
        stop: StopToken | None = None,
    ) -> None:
        self._probe = probe
        self._clock = clock
        self._go_to = go_to
        self._stop = stop or StopToken()
        self._patience = Patience("probe", config.timing.fault_patience_s, clock, recorder)
        self._watch = SignalWatch(config, clock, recorder, self._withdraw)
        self._seen: dict[int, Sample] = {}
        """By the number of the measurement; the times are those of the clock."""
        self._finished: list[tuple[range, int, float]] = []
        """Of each finished walk: its numbers, how many positions it had, when it ended."""
        self._number = _FIRST_NUMBER
        self._begun_s = 0.0
        """When the latest measurement began."""
        self._rewarding = Rewarding(config)
        self._interval_s = config.slot_timing.measure_s

    def run(
        self, positions: Sequence[float], *, on_progress: Callable[[int], None] = lambda _: None
    ) -> Survey:
        """Measure at these positions, in their order; leave out those without a valid reward."""
        first = self._number + 1
        for done, wanted in enumerate(positions, start=1):
            if self._stop.is_set:
                break
            position = self._go_to(wanted)
            for _ in range(_ATTEMPTS):
                measurement = self._measure(position)
                if measurement is not None and measurement.valid:
                    self._seen[measurement.slot] = Sample(
                        position,
                        measurement.reward,
                        measurement.uncertainty,
                        self._begun_s + self._interval_s / 2,
                        measurement.signal,
                    )
                    break
            on_progress(done)
        numbers, ended_s = range(first, self._number + 1), self._clock.now()
        survey = self._survey(numbers, ended_s)
        if not self._stop.is_set:
            require_enough(len(survey.samples), len(positions))
            self._finished.append((numbers, len(positions), ended_s))
        return survey

    @property
    def finished(self) -> list[Survey]:
        """The survey of each finished walk.

        A reward of the end of a walk can be withdrawn in the next one. A walk that has too few
        rewards left is not in the list.
        """
        surveys = [
            (self._survey(numbers, ended_s), positions)
            for numbers, positions, ended_s in self._finished
        ]
        return [survey for survey, positions in surveys if enough(len(survey.samples), positions)]

    def _survey(self, numbers: range, ended_s: float) -> Survey:
        """The survey of some measurements, with its times in UTC."""
        since_1970_s = time.time() - self._clock.now()
        samples = [
            sample._replace(unix_s=sample.unix_s + since_1970_s)
            for number, sample in self._seen.items()
            if number in numbers
        ]
        return Survey.of(samples, ended_s + since_1970_s)

    def _withdraw(self, measurements: Sequence[Observation]) -> None:
        for measurement in measurements:
            self._seen.pop(measurement.slot, None)

    def _measure(self, position: float) -> Observation | None:
        """One observation; wait for a failing probe or a lost signal while patience lasts."""
        while not self._stop.is_set:
            self._number += 1
            self._begun_s = self._clock.now()
            try:
                found = measure_once(
                    self._probe, self._clock, self._number, self._interval_s, self._stop
                )
                seen: Observation | None = None
                if found is not None:
                    with PROBE_CODE:
                        seen = self._rewarding.observe(found)
                    (seen,) = self._watch.judge([(seen, position)])
                    if not seen.valid and seen.reason in (NO_SIGNAL, TONE_LOST):
                        raise ProbeError(seen.reason, seen.hint)
            except ProbeError as fault:
                self._patience.failed(0, EventKind.PROBE_FAULT, fault)
                self._clock.sleep_until(self._clock.now() + _RETRY_S)
                continue
            if seen is not None:
                self._patience.recovered(0)
            elif not self._stop.is_set:
                self._patience.failed(0, EventKind.PROBE_FAULT, _NOTHING)
            return seen
        return None


def measure_once(
    probe: Probe, clock: Clock, slot: int, interval_s: float, stop: StopToken
) -> Measurement | None:
    """One measurement that begins now, numbered as a slot before slot 1.

    None if it does not arrive, or if the run is stopped.
    """
    start = clock.now()
    end = start + interval_s
    with PROBE_CODE:
        probe.request(slot, start, end)
    give_up = end + _LATE_S
    while clock.now() < give_up and not stop.is_set:
        with PROBE_CODE:
            for measurement in probe.collect(min(clock.now() + 0.1, give_up)):
                if measurement.slot == slot:
                    return measurement
        clock.sleep_until(min(clock.now() + 0.01, give_up))
    return None
