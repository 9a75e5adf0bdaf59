"""How long a device of the bench may fail without a break before the run gives up."""

from __future__ import annotations

from collections.abc import Callable

from macontrol.config.model.errors import HardwareError
from macontrol.controller.recording.records import Event, EventKind, Recorder
from macontrol.hal import Clock


class Outage:
    """The time for which attempts fail, added up from one attempt to the next.

    Time without an attempt neither ends an outage nor makes it longer.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lasted_s: float | None = None
        self._counted_until_s = 0.0

    def failed(self) -> float:
        """Count a failed attempt; return how long they have failed (s), 0 for the first one."""
        now = self._clock.now()
        if self._lasted_s is None:
            self._lasted_s = 0.0
        else:
            self._lasted_s += now - self._counted_until_s
        self._counted_until_s = now
        return self._lasted_s

    def paused(self) -> None:
        """Leave out the time since the last call: nothing was attempted in it."""
        if self._lasted_s is not None:
            self._counted_until_s = self._clock.now()

    def ended(self) -> float | None:
        """Count a successful attempt; return how long the outage lasted (s), None without one."""
        lasted = None if self._lasted_s is None else self.failed()
        self._lasted_s = None
        return lasted


class Patience:
    """Report faults of one device and its recovery; raise after `limit_s` of faults."""

    def __init__(self, what: str, limit_s: float, clock: Clock, recorder: Recorder) -> None:
        self._what = what
        self._limit_s = limit_s
        self._clock = clock
        self._submit: Callable[[Event], None] = recorder.submit
        self._outage = Outage(clock)
        self._command_failed = False
        """Whether a command failed in this outage: an answer alone does not end it then."""

    def failed(
        self, slot: int, kind: EventKind, error: HardwareError, *, commanded: bool = False
    ) -> None:
        """Report a fault; raise HardwareError if faults have lasted for too long."""
        self._submit(Event(slot, self._clock.now(), kind, str(error)))
        self._command_failed |= commanded
        lasted = self._outage.failed()
        if lasted > self._limit_s:
            raise HardwareError(
                f"the {self._what} has failed for {lasted:.0f} s "
                f"(timing.fault_patience_s = {self._limit_s:g}): {error}"
            )

    def answered(self, slot: int) -> None:
        """Note a slot without a command. It ends an outage, unless a command failed in it."""
        if self._command_failed:
            self._outage.paused()
        else:
            self.recovered(slot)

    def recovered(self, slot: int) -> None:
        """Report that the device works again, if it did not before."""
        self._command_failed = False
        lasted = self._outage.ended()
        if lasted is not None:
            detail = f"the {self._what} works again"
            self._submit(Event(slot, self._clock.now(), EventKind.RECOVERY, detail, lasted))
