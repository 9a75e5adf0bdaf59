"""Recovery of a lost stage, and homing on schedule.

Both take many seconds, in which the slot thread does nothing else. The stage calls `keep_on`
several times per second, which notices a stop request and gives a sign of life.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from macontrol.config.model.errors import StageBrokenError, StageError, StageLostError
from macontrol.controller.recording.events import EventKind
from macontrol.controller.recording.records import Event, Recorder
from macontrol.controller.runtime.guard import Guard
from macontrol.controller.runtime.patience import Patience
from macontrol.hal import Clock

# The stage has limits of its own for its homing; this one ends a recovery that has none.
_RECOVERY_S = 3600.0
# After this many recoveries, and so little time of work between them, homing is not the remedy.
_OFTEN = 5
_OFTEN_WITHIN_S = 600.0


class Recovery:
    """Tracks whether the stage needs recovery or homing, and does it."""

    def __init__(
        self,
        guard: Guard,
        patience: Patience,
        clock: Clock,
        recorder: Recorder,
        keep_on: Callable[[], bool],
    ) -> None:
        self._guard = guard
        self._patience = patience
        self._clock = clock
        self._recorder = recorder
        self._keep_on = keep_on
        self._is_lost = False
        self._fault: StageError | None = None
        self._recoveries: deque[tuple[float, float]] = deque(maxlen=_OFTEN)
        """Start and end of the last recoveries."""
        self.homings = 0
        """How often the stage was homed, in a recovery or on schedule."""
        self.activity = ""
        """What the slot thread does instead of slots, such as "recovering the stage"."""

    @property
    def is_needed(self) -> bool:
        """Get whether the stage cannot move before a recovery."""
        return self._is_lost

    @property
    def is_due(self) -> bool:
        """Get whether the stage needs a recovery, or homing on schedule."""
        return self._is_lost or self._guard.homing_is_due

    def failed(self, slot: int, fault: StageError, *, commanded: bool = False) -> None:
        """Report a fault of the stage; raise HardwareError if faults have lasted for too long."""
        self._guard.doubt()
        self._is_lost, self._fault = isinstance(fault, StageLostError), fault
        self._patience.failed(slot, EventKind.STAGE_FAULT, fault, commanded=commanded)

    def run(self, slot: int) -> str:
        """Recover the stage, or home it; return why slots are missed meanwhile."""
        was_lost, begun = self._is_lost, self._clock.now()
        if was_lost:
            self._refuse_if_often(begun)
        self.activity = "recovering the stage" if was_lost else "homing the stage"
        try:
            self._guard.recover(begun + _RECOVERY_S, self._keep_on)
        except StageError as fault:
            if self._keep_on():  # otherwise it was interrupted by a stop request: not a fault
                self._is_lost = True
                self._patience.failed(slot, EventKind.STAGE_FAULT, fault)
                if isinstance(fault, StageBrokenError):
                    raise
        else:
            self._is_lost = False
            self.homings += 1
            self._patience.recovered(slot)
            now = self._clock.now()
            if was_lost:
                self._recoveries.append((begun, now))
            else:
                detail = "homed again after stage.rehome_every_s"
                self._recorder.submit(Event(slot, now, EventKind.HOMING, detail, now - begun))
        finally:
            self.activity = ""
        return "recovery of the stage" if was_lost else "homing of the stage"

    def _refuse_if_often(self, now: float) -> None:
        """Give up a stage that is lost again soon after every recovery."""
        if len(self._recoveries) < _OFTEN or self._fault is None:
            return
        first = self._recoveries[0][0]
        worked_s = now - first - sum(ended - begun for begun, ended in self._recoveries)
        if worked_s < _OFTEN_WITHIN_S:
            raise StageBrokenError(
                f"the stage was lost {_OFTEN + 1} times in {now - first:.0f} s, the last time: "
                f"{self._fault.detail}",
                self._fault.fix,
            )
