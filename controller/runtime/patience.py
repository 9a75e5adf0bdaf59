"""How long attempts may fail in a row before the run gives up."""

from __future__ import annotations

from macontrol.config.model.errors import HardwareError, MacontrolError
from macontrol.controller.recording.events import EventKind
from macontrol.controller.recording.records import Event, Recorder
from macontrol.hal import Clock


class Outage:
    """Add up the time for which attempts fail; raise after `limit_s`.

    Time without an attempt neither ends an outage nor makes it longer. `problem` begins the
    error's sentence, as in "the stage has failed for".
    """

    def __init__(
        self,
        problem: str,
        limit_s: float,
        clock: Clock,
        error: type[MacontrolError] = HardwareError,
    ) -> None:
        self._error = error
        self._problem = problem
        self._limit_s = limit_s
        self._clock = clock
        self._lasted_s: float | None = None
        self._counted_until_s = 0.0

    def failed(self, cause: str = "", fix: str = "", *, spent_s: float | None = None) -> None:
        """Count a failed attempt that took the time since the last call, or `spent_s`.

        The first attempt of an outage counts as no time. Raise an error beyond the limit.
        """
        lasted = self._count(spent_s)
        if lasted > self._limit_s:
            patience = f"(timing.fault_patience_s = {self._limit_s:g})"
            detail = f"{self._problem} {lasted:.0f} s {patience}"
            raise self._error(f"{detail}: {cause}" if cause else detail, fix)

    def paused(self) -> None:
        """Leave out the time since the last call: nothing was attempted in it."""
        if self._lasted_s is not None:
            self._counted_until_s = self._clock.now()

    def ended(self) -> float | None:
        """Count a successful attempt; return how long the outage lasted (s), None without one."""
        lasted = None if self._lasted_s is None else self._count(None)
        self._lasted_s = None
        return lasted

    def _count(self, spent_s: float | None) -> float:
        now = self._clock.now()
        if self._lasted_s is None:
            self._lasted_s = 0.0
        else:
            self._lasted_s += now - self._counted_until_s if spent_s is None else spent_s
        self._counted_until_s = now
        return self._lasted_s


class Patience:
    """Report the faults of a device or policy and its recovery; raise after `limit_s`."""

    def __init__(
        self,
        device: str,
        limit_s: float,
        clock: Clock,
        recorder: Recorder,
        error: type[MacontrolError] = HardwareError,
    ) -> None:
        self._device = device
        self._clock = clock
        self._submit = recorder.submit
        self._outage = Outage(f"the {device} has failed for", limit_s, clock, error)
        self._command_failed = False
        """Whether a command failed in this outage: an answer alone does not end it then."""

    def failed(
        self,
        slot: int,
        kind: EventKind,
        error: MacontrolError,
        *,
        commanded: bool = False,
        trace: str = "",
    ) -> None:
        """Report a fault, with a traceback if given; raise if faults have lasted for too long."""
        self._submit(Event(slot, self._clock.now(), kind, f"{error}{trace}"))
        self._command_failed |= commanded
        self._outage.failed(error.detail, error.fix)

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
            detail = f"the {self._device} works again"
            self._submit(Event(slot, self._clock.now(), EventKind.RECOVERY, detail, lasted))
