"""Bringing a lost stage back, and homing one whose time has come.

Both take many seconds, in which the slot thread does nothing else; but the stage asks several
times a second whether to go on, so that a signal is heard and the service manager sees life.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from macontrol.config.model.errors import StageBrokenError, StageError, StageLostError
from macontrol.controller.recording.records import Event, EventKind, Recorder
from macontrol.controller.recording.tally import Tally
from macontrol.controller.runtime.guard import Guard
from macontrol.controller.runtime.patience import Patience
from macontrol.hal import Clock

# The stage itself knows how long its homing may take; this is only an end to all patience.
_RECOVERY_S = 3600.0
# Brought back so often, and lost again after so little work in all: something is wrong that homing
# does not mend.
_OFTEN = 5
_OFTEN_WITHIN_S = 600.0


class Recovery:
    """Knows whether the stage has to be brought back or homed, and does it."""

    def __init__(
        self,
        guard: Guard,
        patience: Patience,
        clock: Clock,
        recorder: Recorder,
        tally: Tally,
        keep_on: Callable[[], bool],
    ) -> None:
        self._guard = guard
        self._patience = patience
        self._clock = clock
        self._recorder = recorder
        self._tally = tally
        self._keep_on = keep_on
        self._is_lost = False
        self._why_lost = ""
        self._recoveries: deque[tuple[float, float]] = deque(maxlen=_OFTEN)
        """When the last of them began and ended."""

    @property
    def is_needed(self) -> bool:
        """Get whether the stage cannot move before it was brought back."""
        return self._is_lost

    @property
    def is_due(self) -> bool:
        """Get whether the stage is to be brought back, or homed because its time has come."""
        return self._is_lost or self._guard.homing_is_due

    def failed(self, slot: int, fault: StageError, *, commanded: bool = False) -> None:
        """Count a fault of the stage; raise HardwareError if faults have lasted for too long."""
        self._guard.doubt()
        self._tally.stage_faults += 1
        self._is_lost, self._why_lost = isinstance(fault, StageLostError), str(fault)
        self._patience.failed(slot, EventKind.STAGE_FAULT, fault, commanded=commanded)

    def run(self, slot: int) -> str:
        """Bring the stage back, or home it; what it was, for those who had to wait for it."""
        was_lost, begun = self._is_lost, self._clock.now()
        if was_lost:
            self._refuse_if_often(begun)
        self._tally.activity = "recovering the stage" if was_lost else "homing the stage"
        try:
            self._guard.recover(begun + _RECOVERY_S, self._keep_on)
        except StageError as fault:
            if self._keep_on():  # else it was broken off, and that is no fault
                self._is_lost = True
                self._tally.stage_faults += 1
                self._patience.failed(slot, EventKind.STAGE_FAULT, fault)
                if isinstance(fault, StageBrokenError):
                    raise
        else:
            self._is_lost = False
            self._tally.displace()
            self._patience.recovered(slot)
            if was_lost:
                self._recoveries.append((begun, self._clock.now()))
            else:
                now = self._clock.now()
                told = "homed again after stage.rehome_every_s"
                self._recorder.submit(Event(slot, now, EventKind.HOMING, told, now - begun))
        finally:
            self._tally.activity = ""
        return "the stage was being recovered" if was_lost else "the stage was being homed again"

    def _refuse_if_often(self, now: float) -> None:
        """A stage that is lost again and again is not homed for ever, however long that takes."""
        if len(self._recoveries) < _OFTEN:
            return
        first = self._recoveries[0][0]
        worked_s = now - first - sum(ended - begun for begun, ended in self._recoveries)
        if worked_s < _OFTEN_WITHIN_S:
            raise StageBrokenError(
                f"the stage was lost {_OFTEN + 1} times in {now - first:.0f} s, the last time: "
                f"{self._why_lost}"
            )
