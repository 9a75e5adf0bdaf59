"""Loss of signal: a transmitter that stops gives valid samples at the noise floor, not rewards.

One slot at the floor proves nothing: it may be a fade, which is a reward of almost 0 and useful to
learn. It is loss of signal only if `probe.no_signal_slots` slots in a row are at the floor and a
fade cannot explain that, for one of the reasons below. Slots without a measurement count too, since
a late stage leaves some; half of the slots must have a measurement.

* It was sudden: one of the last two slots above the floor was well above it. A stroke is a small
  part of a fringe, so the power falls into a fade gradually.
* It is everywhere: the slots at the floor cover most of the rail. No fade is that wide, and few
  shadows are.
* The tone is elsewhere in the spectrum.

A noise floor measured during a run is the exception. The transmitter is off then, so every slot at
the floor is loss of signal until a slot is above it.

Slots without a signal are not valid, and their rewards are withdrawn. The first slot above the
floor ends the loss. That slot and the last one before the loss are not valid either: a transmitter
stops and starts within a slot, which then shows only a part of the power.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import nan

from macontrol.config import Config
from macontrol.controller.recording.events import EventKind, InvalidReason
from macontrol.controller.recording.records import Event, Recorder
from macontrol.controller.runtime.observation import Observation
from macontrol.hal import Clock
from macontrol.hal.probe import FLOOR_IS_MEASURED, NO_SIGNAL, TONE_LOST

WITHOUT_TRANSMITTER = (FLOOR_IS_MEASURED, InvalidReason.TRANSMITTER_OFF)
"""The reasons of slots in which the noise floor was measured."""
# A power this many times further above the floor than noise alone may show is well above it.
_WELL_ABOVE = 10.0
# The share of the rail that counts as all of it.
_EVERYWHERE = 0.6


class SignalWatch:
    """Distinguishes loss of signal from fades, slot by slot.

    `withdraw` gets the measurements of earlier calls that turned out to have no signal.
    """

    def __init__(
        self,
        config: Config,
        clock: Clock,
        recorder: Recorder,
        withdraw: Callable[[Sequence[Observation]], None],
    ) -> None:
        slots = config.probe.no_signal_slots
        self._least = None if slots == "off" else min(slots, config.algorithm.window)
        self._everywhere = _EVERYWHERE * config.physical.region_length
        self._clock = clock
        self._recorder = recorder
        self._withdraw = withdraw
        self._at_floor: deque[tuple[Observation, float]] = deque(maxlen=config.algorithm.window)
        """The slots in a row at the noise floor so far, with their positions."""
        self._above: deque[float] = deque([0.0], maxlen=2)
        self._last: Observation | None = None
        """The last reward above the floor: if the signal vanished in its slot, it is too low."""
        self._transmitter_is_off = False
        """Whether the noise floor was measured on request since the last slot above it."""
        self._lost_since_s: float | None = None

    def judge(self, arrived: Iterable[tuple[Observation, float]]) -> list[Observation]:
        """Return the measurements; those without a signal are not valid any more."""
        judged: dict[int, Observation] = {}
        for measurement, position in arrived:
            judged[measurement.slot] = measurement
            if measurement.reason in WITHOUT_TRANSMITTER:
                self._transmitter_is_off = True
            elif measurement.valid and measurement.above_floor >= 1:
                judged[measurement.slot] = self._see_signal(measurement)
            elif measurement.valid:
                self._at_floor.append((measurement, position))
            if self._at_floor and (self._lost_since_s is not None or self._is_lost()):
                self._lose(judged)
        return list(judged.values())

    def _see_signal(self, measurement: Observation) -> Observation:
        """End a loss of signal; return the measurement, invalid if it ended one."""
        self._at_floor.clear()
        self._above.append(measurement.above_floor)
        self._transmitter_is_off = False
        if self._lost_since_s is None:
            self._last = measurement
            return measurement
        now = self._clock.now()
        lasted, self._lost_since_s = now - self._lost_since_s, None
        detail = "the signal is back"
        self._recorder.submit(Event(measurement.slot, now, EventKind.RECOVERY, detail, lasted))
        return replace(measurement, valid=False, reward=nan, reason=NO_SIGNAL)

    def _is_lost(self) -> bool:
        if self._least is None:
            return False
        if self._transmitter_is_off:
            return True
        if 2 * len(self._at_floor) < self._least or self._slots_at_floor() < self._least:
            return False
        positions = [position for _, position in self._at_floor]
        return (
            max(self._above) >= _WELL_ABOVE
            or max(positions) - min(positions) >= self._everywhere
            or self._at_floor[-1][0].reason == TONE_LOST
        )

    def _slots_at_floor(self) -> int:
        """The length of the row in slots, including those without a measurement."""
        numbers = [measurement.slot for measurement, _ in self._at_floor]
        return max(numbers) - min(numbers) + 1

    def _lose(self, judged: dict[int, Observation]) -> None:
        """Invalidate the slots at the floor; those of this call are in `judged`."""
        slots, earlier = [measurement for measurement, _ in self._at_floor], []
        row = self._slots_at_floor()
        vanished = [] if self._last is None else [replace(self._last, reason=slots[-1].reason)]
        self._last = None
        for measurement in [*vanished, *slots]:
            if measurement.slot in judged:
                judged[measurement.slot] = replace(measurement, valid=False, reward=nan)
            else:
                earlier.append(measurement)
        self._at_floor.clear()
        if self._lost_since_s is None:
            self._lost_since_s = now = self._clock.now()
            last = slots[-1]
            detail = f"at the noise floor; {last.hint}"
            self._recorder.submit(Event(last.slot, now, EventKind.NO_SIGNAL, detail, float(row)))
        if earlier:
            self._withdraw(earlier)
