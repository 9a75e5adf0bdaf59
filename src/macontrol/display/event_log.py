"""The log of a run as JSON lines, for journald or a file; written off the slot thread."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import MutableMapping
from math import isfinite
from queue import Empty, SimpleQueue
from typing import Any

import structlog

from macontrol.controller.record import Event, EventKind, LateReward, Recorder, SlotRecord
from macontrol.controller.tally import Tally
from macontrol.display.output import Output

# A kind of event that comes more often than this in one period is counted, not told.
_MOST_OF_A_KIND = 5
_PERIOD_S = 10.0
# So many events wait for an output that does not take them; further ones are only counted.
_MOST_WAITING = 10_000
_CLOSE_WITHIN_S = 0.5
_LEVELS = {
    EventKind.STAGE_FAULT: "error",
    EventKind.PROBE_FAULT: "error",
    EventKind.REFUSED: "error",
    EventKind.RECORDING: "error",
    EventKind.INTERNAL: "error",
    EventKind.WARNING: "warning",
    EventKind.LATE_ARRIVAL: "warning",
    EventKind.LATE_DECISION: "warning",
    EventKind.MISSED: "warning",
    EventKind.INVALID: "warning",
}


def make_logger(output: Output) -> Any:
    """A logger that prints one JSON object a line."""
    return structlog.wrap_logger(
        structlog.WriteLogger(output),  # type: ignore[arg-type]  # it only writes and flushes
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _without_nan,
            structlog.processors.JSONRenderer(ensure_ascii=False),
        ],
    )


def _without_nan(_logger: Any, _method: str, line: MutableMapping[str, Any]) -> dict[str, Any]:
    """JSON knows no NaN and no infinity, and many readers refuse a line that has one."""
    return {key: _plain(value) for key, value in line.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    return value


class EventLog(Recorder):
    """Tells events as they come, and every ten seconds how the run is going."""

    def __init__(self, tally: Tally, logger: Any) -> None:
        self._tally = tally
        self._logger = logger
        self._queue: SimpleQueue[Event | dict[str, Any] | None] = SimpleQueue()
        self._told: Counter[EventKind] = Counter()
        self._dropped = 0  # counted by the slot thread, …
        self._dropped_told = 0  # … told by this log's: no count has two owners
        self._thread = threading.Thread(target=self._work, name="event-log", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def hand_over(self, item: SlotRecord | Event | LateReward) -> None:
        # Behind a radio with long blocks every reward comes a slot late; the run file has them all.
        if isinstance(item, Event) and item.kind is not EventKind.LATE_REWARD:
            if self._queue.qsize() < _MOST_WAITING:
                self._queue.put(item)
            else:
                self._dropped += 1

    def close(
        self, summary: dict[str, Any] | None = None, within_s: float = _CLOSE_WITHIN_S
    ) -> None:
        """Tell what is left and what it came to, and end; wait for no reader longer than this."""
        if summary is not None:
            self._queue.put(summary)
        self._queue.put(None)
        self._thread.join(within_s)

    def _work(self) -> None:
        period_ends = time.monotonic() + _PERIOD_S
        while True:
            try:
                item = self._queue.get(timeout=max(period_ends - time.monotonic(), 0.0))
                if item is None:
                    self._tell_withheld()
                    return
                if isinstance(item, dict):
                    self._tell_withheld()
                    self._logger.info("summary", **item)
                else:
                    self._tell(item)
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
        dropped = self._dropped
        if dropped > self._dropped_told:
            withheld["dropped"] = dropped - self._dropped_told
            self._dropped_told = dropped
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
