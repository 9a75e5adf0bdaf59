"""Move a bench by hand before a run, through the guard, and show what the probe measures there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isnan, nan

from macontrol.config import Config
from macontrol.config.model.errors import PROBE_CODE, ProbeError, UsageError
from macontrol.config.model.grid import ON_GRID
from macontrol.controller.recording.records import Recorder
from macontrol.controller.runtime.approach import Approach
from macontrol.controller.runtime.guard import Guard
from macontrol.controller.runtime.observation import Observation, Rewarding
from macontrol.controller.runtime.rail import Rail
from macontrol.controller.runtime.stop import StopToken
from macontrol.controller.survey.walk import measure_once
from macontrol.hal import Backend, Clock
from macontrol.hal.capabilities import HasNoiseFloor, MeasuresFloor

# Measurements are numbered from here on: far enough before slot 1.
_FIRST_NUMBER = -500_000
_SHORTEST_S = 0.1
# While the antenna moves, it stops this often for a measurement.
_EVERY_S = 0.5


@dataclass(frozen=True)
class Reading:
    """What is measured at a position."""

    position: float
    """In wavelengths; NaN if it is unknown."""
    position_mm: float
    seen: Observation | None
    problem: str = ""
    """Why nothing is measured."""

    def __str__(self) -> str:
        """One line: position, level, SNR, noise floor, clipping."""
        parts = [
            "position unknown"
            if isnan(self.position)
            else f"{self.position:7.3f} λ {self.position_mm:8.2f} mm"
        ]
        if self.seen is None:
            return f"{parts[0]}   {self.problem}"
        level, unit, floor, snr, clipped, _ = self.seen.signal
        if level is not None:
            parts.append(f"{level:6.1f} {unit}")
        parts.append("SNR unknown" if snr is None else f"SNR {snr:5.1f} dB")
        if level is not None:
            parts.append("floor unknown" if floor is None else f"floor {floor:.1f} {unit}")
        if clipped is not None:
            parts.append(f"clipped {clipped:.1%}")
        if self.seen.valid:
            parts.append(f"reward {self.seen.reward:.2f}")
        elif self.seen.reason:
            parts.append(self.seen.reason)
        return "   ".join(parts)


def on_rail(config: Config, position: float) -> float:
    """The position, if it is on the rail; UsageError otherwise."""
    physical = config.physical
    if not -ON_GRID <= position <= physical.region_length + ON_GRID:
        raise UsageError(
            f"{position:g} wavelengths are off the rail",
            f"give 0 to {physical.region_length:g} wavelengths, or to {physical.rail_mm:g}mm",
        )
    return config.grid.clamp(position)


class Alignment:
    """A bench that a person moves. Positions in wavelengths."""

    def __init__(
        self, config: Config, bench: Backend, clock: Clock, stop: StopToken, recorder: Recorder
    ) -> None:
        """`recorder` gets the events of faults."""
        self._bench = bench
        self._clock = clock
        self._stop = stop
        self._guard, self._rail = Guard.of(config, bench.stage), Rail(config)
        self._approach = Approach.before_slots(
            config, self._guard, clock, recorder, stop, self._before_stroke
        )
        self._may_move: Callable[[], bool] = stop.keep_on
        self._show: Callable[[Reading], None] = lambda _: None
        self._shown_s = clock.now()
        self._rewarding = Rewarding(config)
        self._interval_s = max(config.slot_timing.measure_s, _SHORTEST_S)
        self._number = _FIRST_NUMBER

    @property
    def reading_s(self) -> float:
        """How long a reading takes, at least."""
        return self._interval_s

    @property
    def position(self) -> float:
        """Where the antenna is; NaN if that is unknown."""
        if isnan(self._guard.reported_mm):
            self._guard.locate(self._clock.now() + self._interval_s)
        return self._rail.to_wavelengths(self._guard.reported_mm)

    def clamp(self, position: float) -> float:
        """The nearest position on the rail."""
        return self._rail.clamp(position)

    def go_to(
        self,
        position: float,
        *,
        may_move: Callable[[], bool] = lambda: True,
        show: Callable[[Reading], None],
    ) -> bool:
        """Go there stroke by stroke, and return whether it arrived.

        No stroke follows once `may_move` returns False, or once the stop is requested. On the way
        `show` gets a reading about twice per second.
        """
        self._may_move, self._show = may_move, show
        self._approach.run(position)
        return self._guard.is_close(self._rail.to_mm(position))

    def read(self) -> Reading:
        """Measure where the antenna is."""
        self._number += 1
        seen, problem = None, ""
        try:
            found = measure_once(
                self._bench.probe, self._clock, self._number, self._interval_s, self._stop
            )
            if found is None:
                problem = "stopped" if self._stop.is_set else "no measurement arrives"
            else:
                with PROBE_CODE:
                    seen = self._rewarding.observe(found)
        except ProbeError as error:
            problem = str(error)
            self._clock.sleep_until(self._clock.now() + _EVERY_S)
        position = self.position
        at_mm = nan if isnan(position) else self._guard.reported_mm
        return Reading(position, at_mm, seen, problem)

    def measure_floor(self) -> str:
        """Measure the noise floor; return the outcome as a sentence."""
        bench, probe = self._bench, self._bench.probe
        if not isinstance(probe, HasNoiseFloor):
            return "this probe has no noise floor to measure"
        try:
            with PROBE_CODE:
                if isinstance(bench, MeasuresFloor):
                    return f"noise floor {bench.silent_floor(probe)}"
                return f"noise floor {probe.measure_noise_floor()}"
        except ProbeError as error:
            return str(error)

    def halt(self) -> None:
        """Stop the stage where it is."""
        self._guard.stop()

    def _before_stroke(self) -> bool:
        if self._stop.is_set or not self._may_move():
            return False
        if self._clock.now() - self._shown_s >= _EVERY_S:
            self._show(self.read())
            self._shown_s = self._clock.now()
        return not self._stop.is_set
