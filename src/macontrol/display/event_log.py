"""The log of a run as JSON lines, for journald or a file; written off the slot thread."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from queue import Empty, SimpleQueue
from typing import Any

import structlog

from macontrol.controller.record import Event, EventKind, LateReward, Recorder, SlotRecord
from macontrol.controller.tally import Tally

# A kind of event that comes more often than this in one period is counted, not told.
_MOST_OF_A_KIND = 5
_PERIOD_S = 10.0
_LEVELS = {
    EventKind.STAGE_FAULT: "error",
    EventKind.PROBE_FAULT: "error",
    EventKind.REFUSED: "error",
    EventKind.RECORDING: "error",
    EventKind.WARNING: "warning",
    EventKind.LATE_ARRIVAL: "warning",
    EventKind.LATE_DECISION: "warning",
    EventKind.MISSED: "warning",
}


def make_logger() -> Any:
    """A logger that prints one JSON object a line on standard output."""
    return structlog.wrap_logger(
        structlog.PrintLogger(sys.stdout),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(ensure_ascii=False),
        ],
    )


class EventLog(Recorder):
    """Tells events as they come, and every ten seconds how the run is going."""

    def __init__(self, tally: Tally, logger: Any) -> None:
        self._tally = tally
        self._logger = logger
        self._queue: SimpleQueue[Event | None] = SimpleQueue()
        self._told: Counter[EventKind] = Counter()
        self._thread = threading.Thread(target=self._work, name="event-log", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def hand_over(self, item: SlotRecord | Event | LateReward) -> None:
        if isinstance(item, Event):
            self._queue.put(item)

    def close(self) -> None:
        """Tell what is left, and end."""
        self._queue.put(None)
        self._thread.join(timeout=1.0)

    def _work(self) -> None:
        period_ends = time.monotonic() + _PERIOD_S
        while True:
            try:
                event = self._queue.get(timeout=max(period_ends - time.monotonic(), 0.0))
                if event is None:
                    self._tell_withheld()
                    return
                self._tell(event)
            except Empty:
                pass
            if time.monotonic() >= period_ends:
                period_ends = time.monotonic() + _PERIOD_S
                self._tell_withheld()
                self._tell_status()

    def _tell(self, event: Event) -> None:
        self._told[event.kind] += 1
        if self._told[event.kind] <= _MOST_OF_A_KIND:
            level = _LEVELS.get(event.kind, "info")
            value = {} if event.value is None else {"value": event.value}
            getattr(self._logger, level)(
                str(event.kind), slot=event.slot, detail=event.detail, **value
            )

    def _tell_withheld(self) -> None:
        withheld = {
            str(kind): count - _MOST_OF_A_KIND
            for kind, count in self._told.items()
            if count > _MOST_OF_A_KIND
        }
        if withheld:
            self._logger.warning("more-of-the-same", **withheld)
        self._told.clear()

    def _tell_status(self) -> None:
        tally = self._tally
        self._logger.info(
            "status",
            slot=tally.slot,
            position=round(tally.position, 4),
            target=round(tally.target, 4),
            reward=round(tally.recent_reward, 4),
            travel=round(tally.travel, 2),
            switches=tally.switches,
            late=tally.late,
        )
