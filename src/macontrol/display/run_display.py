"""The display of a run and its summary: a live view, plain lines or JSON lines."""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from typing import Any

from macontrol.config import Config
from macontrol.controller.host.realtime import RealtimeReport
from macontrol.controller.recording.records import Item, Recorder
from macontrol.controller.runtime.loop import SlotLoop
from macontrol.display.event_log import EventLog, JsonLines, PlainLines, summary_text
from macontrol.display.live_view import LiveView
from macontrol.display.output import Output
from macontrol.display.run_state import RunFacts
from macontrol.run_options import LogFormat

# The survey's progress bar may be on the line; it is drawn again below the note.
_CLEAR_LINE = "\r\x1b[2K"


class RunDisplay(Recorder):
    """Shows one run on standard output."""

    def __init__(self, log_format: LogFormat) -> None:
        self.output = Output()
        self._format = _chosen(log_format, self.output)
        self._lines = JsonLines(self.output) if self._format == "json" else PlainLines(self.output)
        self._log: EventLog | None = None
        self._view: LiveView | None = None
        self._realtime: RealtimeReport | None = None

    @property
    def is_view(self) -> bool:
        """Whether a person watches the run at a terminal."""
        return self._format == "view"

    @property
    def has_log(self) -> bool:
        """Whether events, including tracebacks, are written as lines."""
        return self._log is not None

    def note(self, text: str) -> None:
        """Report the start of the bench, before the run."""
        if self.is_view:
            self.output.write(f"{_CLEAR_LINE}{text}\n")
        else:
            self._lines.note(text)

    def start(self, closing: ExitStack, config: Config, name: str, loop: SlotLoop) -> None:
        """Start to show the run; `closing` ends a view, and `close` a log."""
        if self.is_view:
            view = LiveView(RunFacts.of(config, name, loop))
            with suppress(OSError):  # the run continues without a view
                view.start()
                self._view = view
                closing.callback(view.close)
            return
        self._log = EventLog(loop.tally, self._lines)
        self._log.start()

    def submit(self, item: Item) -> None:
        if self._view is not None:
            self._view.submit(item)
        elif self._log is not None:
            self._log.submit(item)

    def show_realtime(self, report: RealtimeReport) -> None:
        """Show permanently what the kernel refused, and the command that grants it."""
        self._realtime = report
        if self._view is not None:
            self._view.notice = report.notice

    def show(self, summary: dict[str, Any], within_s: float) -> None:
        """Show the summary; wait at most `within_s` for the reader."""
        if self._realtime is not None:
            summary["realtime"] = self._realtime.as_data()
        if self._log is not None:
            self._log.close(summary, within_s)
        else:
            self.output.write_within(summary_text(summary, self.output), within_s)

    def close(self) -> None:
        if self._view is not None:
            self._view.close()
        if self._log is not None:
            self._log.close()


def _chosen(log_format: LogFormat, output: Output) -> str:
    if log_format != "auto":
        return log_format
    if output.is_terminal and os.environ.get("TERM", "dumb") != "dumb":
        return "view"
    return "json" if output.is_journal else "text"
