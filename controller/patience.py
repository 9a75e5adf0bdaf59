"""How long a part of the bench may fail without a break before the run gives up."""

from __future__ import annotations

from collections.abc import Callable

from macontrol.config.errors import HardwareError
from macontrol.controller.record import Event, EventKind, Recorder
from macontrol.hal import Clock


class Patience:
    """Tells of a part's faults and of its recovery, and is at an end after a time of faults."""

    def __init__(self, what: str, limit_s: float, clock: Clock, recorder: Recorder) -> None:
        self._what = what
        self._limit_s = limit_s
        self._clock = clock
        self._hand_over: Callable[[Event], None] = recorder.hand_over
        self._failing_since_s: float | None = None

    def failed(self, slot: int, kind: EventKind, error: HardwareError) -> None:
        """Tell of a fault; a HardwareError if they have gone on for too long."""
        now = self._clock.now()
        self._hand_over(Event(slot, now, kind, str(error)))
        if self._failing_since_s is None:
            self._failing_since_s = now
            return
        lasted = now - self._failing_since_s
        if lasted > self._limit_s:
            raise HardwareError(
                f"the {self._what} has failed for {lasted:.0f} s "
                f"(timing.fault_patience_s = {self._limit_s:g}): {error}"
            )

    def recovered(self, slot: int) -> None:
        """Tell that it works again, if it did not before."""
        if self._failing_since_s is not None:
            now = self._clock.now()
            lasted, self._failing_since_s = now - self._failing_since_s, None
            told = f"the {self._what} works again"
            self._hand_over(Event(slot, now, EventKind.RECOVERY, told, lasted))
