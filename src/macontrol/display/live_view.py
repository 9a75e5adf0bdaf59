"""The live view of a run on a terminal, drawn by a process of its own.

Drawing takes milliseconds of Python, and the slot thread must not wait for it. The run's process
only writes a few numbers to a pipe four times per second; `display.picture` reads and draws them.
"""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from contextlib import suppress
from typing import Any, Protocol

from macontrol.controller.recording.records import (
    Event,
    EventKind,
    Item,
    Recorder,
)
from macontrol.display.event_text import event_text
from macontrol.display.output import Output
from macontrol.display.picture import IGNORED_SIGNALS
from macontrol.helper_process import python_module

_INTERVAL_S = 0.25
_CLOSE_WITHIN_S = 0.5
_SHOW_CURSOR = "\x1b[?25h"
# With some radios every reward is late; it is used nevertheless.
_NOT_SHOWN = (EventKind.START, EventKind.LATE_REWARD)
_MOST_EVENTS = 4


class HasState(Protocol):
    """A run whose state another thread can read."""

    def state(self) -> dict[str, Any]: ...


class LiveView(Recorder):
    """Feeds the drawing process; the slot thread only checks each event."""

    def __init__(self, run: HasState) -> None:
        self.notice: tuple[str, ...] = ()
        """Lines that are always shown."""
        self._run = run
        self._events: tuple[Event, ...] = ()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._feed, name="live-view", daemon=True)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the drawing process; OSError if that fails."""
        command = python_module("macontrol.display.picture")
        # Block, do not ignore: a signal at this moment must reach the run's process.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, IGNORED_SIGNALS)
        try:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, bufsize=0)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self._thread.start()

    def submit(self, item: Item) -> None:
        if isinstance(item, Event) and item.kind not in _NOT_SHOWN:
            # A repeated event takes one line, so that its cause stays visible.
            others = [e for e in self._events if (e.kind, e.detail) != (item.kind, item.detail)]
            self._events = (*others, item)[-_MOST_EVENTS:]

    def close(self) -> None:
        """Draw the last state and leave it on the screen."""
        process = self._process
        if process is None:
            return
        self._ended.set()
        self._thread.join(_CLOSE_WITHIN_S)
        try:
            process.wait(_CLOSE_WITHIN_S)
        except subprocess.TimeoutExpired:  # for example on a terminal stopped with Ctrl-S
            process.kill()
            process.wait()
            Output().write_within(_SHOW_CURSOR, _CLOSE_WITHIN_S)

    def _feed(self) -> None:
        assert self._process is not None and self._process.stdin is not None
        with suppress(OSError), self._process.stdin as pipe:  # a run continues without its view
            ended = False
            while not ended:
                ended = self._ended.wait(_INTERVAL_S)
                pipe.write(json.dumps(self.snapshot()).encode() + b"\n")

    def snapshot(self) -> dict[str, Any]:
        """The data to draw next."""
        events = [event_text(event) for event in list(self._events)]
        return {**self._run.state(), "notice": self.notice, "events": events}
