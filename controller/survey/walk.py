"""The warm-up survey on a real rail: go to each position, stand still, measure, go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from macontrol.config import Config
from macontrol.config.model.errors import ProbeError
from macontrol.controller.recording.records import EventKind, Recorder
from macontrol.controller.recording.tally import Tally
from macontrol.controller.runtime.approach import Approach
from macontrol.controller.runtime.guard import Guard
from macontrol.controller.runtime.patience import Patience
from macontrol.controller.runtime.recovery import Recovery
from macontrol.controller.runtime.signal_watch import SignalWatch
from macontrol.controller.survey.samples import Survey
from macontrol.hal import Backend, Clock, Measurement, Probe
from macontrol.hal.probe import NO_SIGNAL, TONE_LOST

_ATTEMPTS = 3
# How long beyond its interval a measurement may take to come in.
_LATE_S = 3.0
# While the probe fails, it is tried again after so long.
_WAIT_S = 0.5
# Measurements are numbered from here on: far enough before slot 1.
_FIRST_NUMBER = -500_000
# Of the positions asked for, so many must give a reward for the survey to mean anything.
_LEAST_SHARE = 0.5


def walk_rail(
    config: Config,
    bench: Backend,
    clock: Clock,
    recorder: Recorder,
    *,
    is_stopped: Callable[[], bool],
    on_progress: Callable[[int], None] = lambda _: None,
) -> Survey:
    """Walk a bench's rail, stroke by stroke through the guard, and measure on the way."""
    physical = config.physical
    wavelength_mm, patience_s = physical.wavelength_mm, config.timing.fault_patience_s
    guard = Guard(bench.stage, region_mm=config.rail_mm, stroke_mm=physical.rho_max * wavelength_mm)
    patience = Patience("stage", patience_s, clock, recorder)
    tally = Tally(0.0)
    recovery = Recovery(guard, patience, clock, recorder, tally, lambda: not is_stopped())
    approach = Approach(guard, clock, patience, recovery, tally, stroke_s=physical.slot_duration_s)

    def go_to(position: float) -> float:
        approach.run(position * wavelength_mm, is_stopped)
        return min(max(guard.reported_mm / wavelength_mm, 0.0), physical.region_length)

    walk = SurveyWalk(config, bench.probe, clock, go_to, recorder)
    return walk.run(config.survey_positions, on_progress=on_progress, is_stopped=is_stopped)


class SurveyWalk:
    """Walks the rail from left to right. `go_to` takes the antenna to a position (wavelengths)."""

    def __init__(
        self,
        config: Config,
        probe: Probe,
        clock: Clock,
        go_to: Callable[[float], float],
        recorder: Recorder,
    ) -> None:
        self._probe = probe
        self._clock = clock
        self._go_to = go_to
        self._patience = Patience("probe", config.timing.fault_patience_s, clock, recorder)
        self._watch = SignalWatch(config, clock, recorder, self._withdraw)
        self._seen: dict[int, tuple[float, float, float]] = {}
        """Position, reward and uncertainty by the number of the measurement."""
        self._number = _FIRST_NUMBER
        self._largest_reward = config.largest_reward
        physical = config.physical
        self._interval_s = physical.slot_duration_s - physical.actuation_time_s

    def run(
        self,
        positions: Sequence[float],
        *,
        on_progress: Callable[[int], None] = lambda _: None,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> Survey:
        """Measure at these positions; those that give no valid reward are left out."""
        self._seen.clear()
        for done, wanted in enumerate(positions, start=1):
            if is_stopped():
                break
            position = self._go_to(wanted)
            for _ in range(_ATTEMPTS):
                measurement = self._measure(position, is_stopped)
                if measurement is not None and self._is_usable(measurement):
                    found = position, measurement.reward, measurement.uncertainty
                    self._seen[measurement.slot] = found
                    break
            on_progress(done)
        seen = list(self._seen.values())
        if not is_stopped() and len(seen) < max(2, _LEAST_SHARE * len(positions)):
            raise ProbeError(
                f"the survey got a reward at only {len(seen)} of {len(positions)} positions; "
                "see what the probe says with `macontrol check`"
            )
        position, reward, uncertainty = np.array(seen or np.empty((0, 3))).T
        variances = np.square(uncertainty[np.isfinite(uncertainty)])
        # A probe that does not know its noise has none to subtract.
        noise_variance = float(variances.mean()) if len(variances) else 0.0
        return Survey(position, reward, noise_variance, walked_wall_s=time.time())

    def _is_usable(self, measurement: Measurement) -> bool:
        return measurement.valid and abs(measurement.reward) <= self._largest_reward

    def _withdraw(self, measurements: Sequence[Measurement]) -> None:
        for measurement in measurements:
            self._seen.pop(measurement.slot, None)

    def _measure(self, position: float, is_stopped: Callable[[], bool]) -> Measurement | None:
        """One measurement; a failing probe or a lost signal is waited for, while patience lasts."""
        while not is_stopped():
            self._number += 1
            try:
                seen = measure_once(
                    self._probe, self._clock, self._number, self._interval_s, is_stopped
                )
                if seen is not None:
                    (seen,) = self._watch.judge([(seen, position)])
                    if not seen.valid and seen.reason in (NO_SIGNAL, TONE_LOST):
                        raise ProbeError(f"{seen.reason}; {seen.hint}")
            except ProbeError as fault:
                self._patience.failed(0, EventKind.PROBE_FAULT, fault)
                self._clock.sleep_until(self._clock.now() + _WAIT_S)
                continue
            self._patience.recovered(0)
            return seen
        return None


def measure_once(
    probe: Probe, clock: Clock, slot: int, interval_s: float, is_stopped: Callable[[], bool]
) -> Measurement | None:
    """One measurement from now on, numbered as a slot before slot 1.

    None if it does not come, or if nobody waits for it any more.
    """
    start = clock.now()
    end = start + interval_s
    probe.request(slot, start, end)
    give_up = end + _LATE_S
    while clock.now() < give_up and not is_stopped():
        for measurement in probe.collect(min(clock.now() + 0.1, give_up)):
            if measurement.slot == slot:
                return measurement
        clock.sleep_until(min(clock.now() + 0.01, give_up))
    return None
