"""The log of a run without a live view, written by a thread of its own from a queue.

JSON lines are for journald and programs, plain lines for a person who reads a pipe or a file.
"""

from __future__ import annotations

import io
import threading
import time
from collections import Counter
from collections.abc import MutableMapping
from math import isfinite
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from rich.console import Console

from macontrol.controller.recording.records import (
    Event,
    EventKind,
    Item,
    Recorder,
)
from macontrol.controller.recording.tally import Tally
from macontrol.display.event_text import event_text
from macontrol.display.output import Output
from macontrol.display.summary import print_summary

# At most this many events wait for a blocked output; others are only counted.
_MOST_WAITING = 10_000
_CLOSE_WITHIN_S = 0.5
# Every event of these kinds is written: they are rare, and no two are alike.
_ALL_WRITTEN = (EventKind.WARNING, EventKind.INTERNAL, EventKind.NOISE_FLOOR)
# Of these kinds, events that differ in detail or value are counted apart: an operator's next
# action and its result, a fault with another cause. At most this many different ones of a kind are
# written.
_APART = (
    EventKind.ACTION,
    EventKind.STAGE_FAULT,
    EventKind.PROBE_FAULT,
    EventKind.REMOVED_RUN,
    EventKind.SURVEY,
)
_MOST_DIFFERENT = 20
_LEVELS = {
    EventKind.STAGE_FAULT: "error",
    EventKind.PROBE_FAULT: "error",
    EventKind.POLICY_FAULT: "error",
    EventKind.REFUSED: "error",
    EventKind.RECORDING: "error",
    EventKind.INTERNAL: "error",
    EventKind.WARNING: "warning",
    EventKind.LATE_ARRIVAL: "warning",
    EventKind.LATE_DECISION: "warning",
    EventKind.MISSED: "warning",
    EventKind.INVALID: "warning",
    EventKind.NO_SIGNAL: "error",
}


class Lines(Protocol):
    """The format of a log."""

    period_s: float
    """In each period the log writes the first events of each kind (`most_of_a_kind`), counts the
    others, and reports the state of the run."""
    most_of_a_kind: int

    def note(self, text: str) -> None:
        """Report the start of the bench, before the run."""
        ...

    def event(self, event: Event) -> None: ...
    def withheld(self, counts: dict[str, int]) -> None: ...
    def status(self, tally: Tally) -> None: ...
    def summary(self, summary: dict[str, Any]) -> None: ...


class JsonLines:
    """One JSON object per line."""

    period_s = 10.0
    most_of_a_kind = 5

    def __init__(self, output: Output) -> None:
        import structlog  # imports asyncio and ssl: only a JSON log pays for that

        self._logger: Any = structlog.wrap_logger(
            structlog.WriteLogger(output),  # type: ignore[arg-type]  # only write and flush are used
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                _without_nan,
                structlog.processors.JSONRenderer(ensure_ascii=not output.is_unicode),
            ],
        )

    def note(self, text: str) -> None:
        self._logger.info("bench", detail=text)

    def event(self, event: Event) -> None:
        value = {} if event.value is None else {"value": event.value}
        log = getattr(self._logger, _LEVELS.get(event.kind, "info"))
        log(str(event.kind), slot=event.slot, detail=event.detail, **value)

    def withheld(self, counts: dict[str, int]) -> None:
        self._logger.warning("more-of-the-same", **counts)

    def status(self, tally: Tally) -> None:
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

    def summary(self, summary: dict[str, Any]) -> None:
        self._logger.info("summary", **summary)


class PlainLines:
    """Lines for a person: the first event of each kind per minute, and a table at the end."""

    period_s = 60.0
    most_of_a_kind = 1

    def __init__(self, output: Output) -> None:
        self._output = output

    def note(self, text: str) -> None:
        self._write(text)

    def event(self, event: Event) -> None:
        if event.kind is EventKind.WARNING:
            self._write(f"warning: {event.detail}")
            return
        level = _LEVELS.get(event.kind)
        self._write((f"{level}: " if level else "") + event_text(event).rstrip())

    def withheld(self, counts: dict[str, int]) -> None:
        listed = ", ".join(f"{count} {kind}" for kind, count in counts.items())
        self._write(f"more of the same, not shown: {listed}")

    def status(self, tally: Tally) -> None:
        reward = f", reward {tally.recent_reward:.3f}" if isfinite(tally.recent_reward) else ""
        late = f"{tally.late} late or missed"
        self._write(f"slot {tally.slot}: at {tally.position:.3f} λ{reward}, {late}")

    def summary(self, summary: dict[str, Any]) -> None:
        self._output.write(summary_text(summary, self._output))

    def _write(self, text: str) -> None:
        self._output.write(f"{time.strftime('%H:%M:%S')} {text}\n")


def summary_text(summary: dict[str, Any], output: Output) -> str:
    """The summary as a table for this output."""
    if output.is_terminal:
        console = Console()
    else:
        encoding = "utf-8" if output.is_unicode else "ascii"
        console = Console(file=io.TextIOWrapper(io.BytesIO(), encoding), width=80)
    with console.capture() as capture:
        print_summary(console, summary)
    return capture.get()


def _without_nan(_logger: Any, _method: str, line: MutableMapping[str, Any]) -> dict[str, Any]:
    """Replace NaN and infinity by null: JSON has neither, and many readers refuse such a line."""
    return {key: _plain(value) for key, value in line.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    return value


class EventLog(Recorder):
    """Writes events as they occur, and the state of the run once per period."""

    def __init__(self, tally: Tally, lines: Lines) -> None:
        self._tally = tally
        self._lines = lines
        self._queue: SimpleQueue[Event | dict[str, Any] | None] = SimpleQueue()
        self._written: Counter[tuple[object, ...]] = Counter()
        """How many events are written in this period: per kind, or per event that counts apart."""
        self._withheld: Counter[str] = Counter()
        self._dropped = 0  # written by the slot thread only
        self._dropped_reported = 0  # written by the log's thread only
        self._thread = threading.Thread(target=self._work, name="event-log", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, item: Item) -> None:
        # With a radio that sends long blocks, every reward is late; the run file has them all.
        if isinstance(item, Event) and item.kind is not EventKind.LATE_REWARD:
            if self._queue.qsize() < _MOST_WAITING:
                self._queue.put(item)
            else:
                self._dropped += 1

    def close(
        self, summary: dict[str, Any] | None = None, within_s: float = _CLOSE_WITHIN_S
    ) -> None:
        """Write the queue and the summary, and end; wait at most `within_s` for the output."""
        if summary is not None:
            self._queue.put(summary)
        self._queue.put(None)
        self._thread.join(within_s)

    def _work(self) -> None:
        period_ends = time.monotonic() + self._lines.period_s
        while True:
            try:
                item = self._queue.get(timeout=max(period_ends - time.monotonic(), 0.0))
                if item is None:
                    self._report_withheld()
                    return
                if isinstance(item, dict):
                    self._report_withheld()
                    self._lines.summary(item)
                else:
                    self._report(item)
            except Empty:
                pass
            if time.monotonic() >= period_ends:
                period_ends = time.monotonic() + self._lines.period_s
                self._report_withheld()
                self._lines.status(self._tally)

    def _report(self, event: Event) -> None:
        if event.kind in _ALL_WRITTEN:
            self._lines.event(event)
            return
        like: tuple[object, ...] = (event.kind,)
        if event.kind in _APART:
            like = event.kind, event.detail, event.value
        written, most = self._written[like], self._lines.most_of_a_kind
        if not written and sum(kind is event.kind for kind, *_ in self._written) >= _MOST_DIFFERENT:
            most = 0
        if written < most:
            self._written[like] += 1
            self._lines.event(event)
        else:
            self._withheld[str(event.kind)] += 1

    def _report_withheld(self) -> None:
        withheld = dict(self._withheld)
        dropped = self._dropped
        if dropped > self._dropped_reported:
            withheld["dropped"] = dropped - self._dropped_reported
            self._dropped_reported = dropped
        if withheld:
            self._lines.withheld(withheld)
        self._written.clear()
        self._withheld.clear()
