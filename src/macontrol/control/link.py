"""The daemon's end of the control socket: starts the server, and exchanges messages with it.

A thread with ordinary scheduling works here, at a bounded rate. The slot thread only submits
records. A run does without the socket if it cannot be had.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import threading
import time
import traceback
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any

import macontrol
from macontrol.config.model.errors import MacontrolError, RequestError, reason_of
from macontrol.control.actions import Actions, Report
from macontrol.control.lines import Lines
from macontrol.control.live_run import LiveRun
from macontrol.control.messages import RATES
from macontrol.control.places import listen
from macontrol.control.snapshot import Snapshots, known
from macontrol.controller.recording.events import EventKind
from macontrol.controller.recording.records import Event
from macontrol.display.event_text import event_text
from macontrol.helper_process import python_module

_SHORTEST_S = 1 / RATES[1]
_IDLE_S = 0.5
_JOIN_S = 2.0
_END_S = 0.5
_RESTART_AFTER_S = 1.0
_RESTARTS = 5
_RESTARTS_WITHIN_S = 600.0
# The daemon decides about these. Blocked, not ignored: see `display.live_view`.
_BLOCKED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)


class ControlLink:
    """Serves from `start` to `close`."""

    def __init__(
        self,
        run: LiveRun,
        snapshots: Snapshots,
        actions: Actions,
        report: Report,
    ) -> None:
        self._run = run
        self._snapshots = snapshots
        self._actions = actions
        self._report = report
        self.path: Path | None = None
        self._listener: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._lines: Lines | None = None
        self._link: socket.socket | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="control", daemon=True)
        self._rate = 0.0
        self._is_requested = False
        self._sent_s = 0.0
        self._events_sent_s = 0.0
        self._deaths: deque[float] = deque(maxlen=_RESTARTS)
        self._wall_offset_s = time.time() - time.monotonic()

    @classmethod
    def of(cls, run: LiveRun, report: Report) -> ControlLink:
        snapshots = Snapshots(run)
        return cls(run, snapshots, Actions(run, snapshots, report), report)

    def start(self) -> str:
        """Listen and start the server; return why that is not possible, or an empty text."""
        try:
            self._listener, self.path = listen(self._run.options.name)
            self._start_server()
        except (OSError, MacontrolError) as error:
            reason = reason_of(error) if isinstance(error, OSError) else str(error)
            return f"there is no control socket: {reason}"
        self._thread.start()
        return ""

    def close(self) -> None:
        """End the server; clients see the end of the connection."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(_JOIN_S)
        if self.path is not None:
            with suppress(OSError):
                self.path.unlink()
        if self._listener is not None:
            self._listener.close()
        self._end_server()

    def _start_server(self) -> None:
        assert self._listener is not None
        ours, theirs = socket.socketpair()
        numbers = self._listener.fileno(), theirs.fileno()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED)
        try:
            self._process = subprocess.Popen(
                [*python_module("macontrol.control.server"), *map(str, numbers)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=numbers,
            )
        except OSError:
            ours.close()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()
        self._link, self._lines = ours, Lines(ours)
        facts = {"version": macontrol.__version__, "name": self._run.options.name}
        self._lines.send({"facts": facts | {"pid": os.getpid()}})

    def _end_server(self) -> str:
        """Close the link and wait for the server; return its exit code and last message."""
        process = self._process
        if self._link is not None:
            self._link.close()
        if process is None:
            return ""
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stderr is not None
        with process.stderr as stream:
            os.set_blocking(stream.fileno(), False)
            message = (stream.read() or b"").decode(errors="replace").strip().rpartition("\n")[2]
        self._process, self._link, self._lines = None, None, None
        return f"exit code {process.returncode}{': ' if message else ''}{message}"

    # The methods below run in the thread.

    def _work(self) -> None:
        try:
            self._exchange()
        except Exception as error:  # the run does not depend on its control socket
            detail = "".join(traceback.format_exception(error))
            self._report(EventKind.CONTROL, f"the control thread has failed\n{detail}", None)
            self._end_server()

    def _exchange(self) -> None:
        while not self._ended.is_set():
            if self._lines is None:
                return
            self._wait()
            self._run.await_quiet()
            for message in self._lines.read():
                self._handle(message)
            self._actions.look_after_survey()
            self._send_what_is_due()
            self._lines.flush()
            if self._lines.is_closed:
                self._replace_server()
        if self._lines is not None:  # what clients see last
            self._send_events()
            if self._rate:
                self._send_snapshot()

    def _wait(self) -> None:
        assert self._lines is not None and self._link is not None
        is_active = self._rate or self._run.wants_events or self._run.walk is not None
        timeout_s = _SHORTEST_S if is_active else _IDLE_S
        if self._rate or self._is_requested:
            period_s = _SHORTEST_S if self._is_requested else 1 / self._rate
            timeout_s = min(timeout_s, max(self._sent_s + period_s - time.monotonic(), 0.0))
        select.select([self._link], [self._link] if self._lines.unsent else [], [], timeout_s)

    def _handle(self, message: dict[str, Any]) -> None:
        if "rate" in message:
            self._rate = message["rate"]
            self._run.wants_events = message["events"]
        elif "once" in message:
            self._is_requested = True
        elif "call" in message:
            self._answer(message)

    def _answer(self, message: dict[str, Any]) -> None:
        assert self._lines is not None
        reply: dict[str, Any] = {"reply": message["call"]}
        try:
            reply["result"] = self._actions.perform(
                message["method"], message["params"], message["origin"]
            )
        except RequestError as error:
            reply["error"] = {
                "code": error.code,
                "detail": error.detail,
                "fix": error.fix,
                **error.data,
            }
        self._lines.send(reply)

    def _send_what_is_due(self) -> None:
        now = time.monotonic()
        if now - self._events_sent_s >= _SHORTEST_S:
            self._events_sent_s = now
            self._send_events()
        period_s = 1 / self._rate if self._rate else float("inf")
        if self._is_requested:
            period_s = _SHORTEST_S
        if now - self._sent_s >= period_s:
            self._send_snapshot()

    def _send_snapshot(self) -> None:
        assert self._lines is not None
        if self._lines.unsent:  # the server is behind
            return
        self._sent_s, self._is_requested = time.monotonic(), False
        self._lines.send({"snapshot": self._snapshots.make()})

    def _send_events(self) -> None:
        """Send the events that wait, and how many were dropped."""
        assert self._lines is not None
        run, events = self._run, []
        while run.events:
            events.append(self._as_data(run.events.popleft()))
        dropped, run.dropped = run.dropped, 0
        if (events or dropped) and not self._lines.send({"events": events, "dropped": dropped}):
            run.dropped += len(events) + dropped

    def _as_data(self, event: Event) -> dict[str, Any]:
        return {
            "slot": event.slot,
            "time_s": event.time_s + self._wall_offset_s,
            "kind": str(event.kind),
            "detail": event.detail,
            "value": known(event.value),
            "text": event_text(event),
        }

    def _replace_server(self) -> None:
        """After the death of the server: start another one, unless it dies again and again."""
        self._run.wants_events, self._rate, self._is_requested = False, 0.0, False
        cause, now = self._end_server(), time.monotonic()
        is_often = len(self._deaths) == _RESTARTS and now - self._deaths[0] < _RESTARTS_WITHIN_S
        self._deaths.append(now)
        after = "it is not started again" if is_often else "it is started again"
        self._report(EventKind.CONTROL, f"the server has ended ({cause}); {after}", None)
        if is_often or self._ended.wait(_RESTART_AFTER_S):
            return
        try:
            self._start_server()
        except OSError as error:
            detail = f"the server cannot be started: {reason_of(error)}"
            self._report(EventKind.CONTROL, detail, None)
