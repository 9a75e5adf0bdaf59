"""The dialogue with a GRBL board: lines out, answers owed, reports in.

The board answers each line with `ok` or `error`, and each status query with a report. An unexpected
banner or alarm makes the position unknown.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

from macontrol.config.model.errors import BoardRestartedError, StageError
from macontrol.config.sections.stage import AXES
from macontrol.hal.serial.stage import SerialParts
from macontrol.hal.stages.grbl.protocol import (
    FEED_HOLD,
    HARD_LIMIT,
    RESET,
    STATUS_QUERY,
    Alarm,
    Banner,
    Failure,
    Message,
    Ok,
    Report,
    Status,
    parse,
)
from macontrol.hal.stages.grbl.settings import GrblSettings

ANSWER_S = 1.0
BANNER_WAIT_S = 2.5
STOP_S = 5.0
_COMMAND_S = 3.0
_POLL_INTERVAL_S = 0.02
# GRBL ignores everything for half a second after an alarm, a reset included, until its message.
_ALARM_MESSAGE_S = 1.5


class GrblSession:
    """One board behind one connection."""

    def __init__(self, parts: SerialParts[GrblSettings]) -> None:
        self.parts = parts
        self._port = parts.settings.port
        self._clock = parts.clock
        self._connection = parts.connection
        self._position = parts.position
        self.index = AXES.index(parts.settings.axis)
        self.banner: Banner | None = None
        self.alarm: Alarm | None = None
        self.previous_alarm: Alarm | None = None
        """The alarm that was active when the handshake began."""
        self.reported_axes = 0
        """How many axes the last report had."""
        self._work_offsets: tuple[tuple[float, ...], ...] = ()
        """The last two offsets of the work coordinates: a single one may be garbled."""
        self.owed = 0
        """Lines whose `ok` or `error` has not arrived yet."""
        self._has_open_query = False
        """Whether the report of a status query may still arrive."""

    def begin_handshake(self) -> None:
        self.forget_owed()
        self.previous_alarm, self.alarm, self.banner = self.alarm, None, None

    def forget_owed(self) -> None:
        """Expect no answers to what was sent before."""
        self.owed, self._has_open_query = 0, False

    # -- Sending ------------------------------------------------------------------------------

    def send(self, data: bytes, deadline_s: float = inf, *, answers: int = 0) -> None:
        """Send bytes that the board answers with this many `ok` or `error`."""
        self._connection.write(data, deadline_s)
        self.owed += answers

    def command(self, text: str, deadline_s: float) -> list[Report] | None:
        """Send one line and return all reports up to its `ok`; None if that does not arrive."""
        until = min(deadline_s, self._clock.now() + _COMMAND_S)
        reports = self.exchange(f"{text}\n".encode("ascii"), 1, until)
        for report in reports or ():
            if isinstance(report, Failure):
                raise StageError(f"the board refuses {text}: {report}")
        return reports

    def exchange(self, lines: bytes, count: int, deadline_s: float) -> list[Report] | None:
        """Send lines and return all reports up to the last answer; None if that does not arrive."""
        self.drain()
        self.send(lines, deadline_s, answers=count)
        reports: list[Report] = []
        while self.owed:
            report = self.next_report(deadline_s)
            if report is None:
                self.owed = 0
                return None
            if isinstance(report, Banner):
                raise BoardRestartedError(f"{self._port}: the board restarted during the handshake")
            reports.append(report)
        return reports

    def await_answers(self, deadline_s: float) -> bool:
        """Read until no answer is owed; return False at the deadline."""
        while self.owed:
            if self.next_report(deadline_s) is None:
                return False
        return True

    # -- Status -------------------------------------------------------------------------------

    def ask_status(self, deadline_s: float) -> Status | None:
        """Request a report of this moment; None if none arrives by the deadline."""
        self.drain()
        if self._has_open_query and not self.owed:
            # The report of an earlier query may still arrive. It precedes the answer to an empty
            # line, so every report after that answer is new.
            self.send(b"\n", deadline_s, answers=1)
            if not self.await_answers(deadline_s):
                return None
        self._query_status(deadline_s)
        while (report := self.next_report(deadline_s)) is not None:
            if isinstance(report, Status):
                self.reported_axes = max(len(report.machine), len(report.work))
                if self.reported_axes <= self.index:
                    return None
                located = self._in_machine_coordinates(report)
                if located is not None:
                    return located
                # A work position needs its offset, which only some reports contain.
                self._query_status(deadline_s)
        return None

    def ask_status_soon(self, deadline_s: float) -> Status | None:
        """Request a report, and wait for it as long as one answer may take."""
        return self.ask_status(min(deadline_s, self._clock.now() + ANSWER_S))

    def _query_status(self, deadline_s: float) -> None:
        self.send(STATUS_QUERY, deadline_s)
        self._has_open_query = True

    def _in_machine_coordinates(self, report: Status) -> Status | None:
        """The report with a machine position; None if it cannot be computed."""
        if self.index < len(report.machine):
            return report
        offsets = self._work_offsets
        offset = offsets[-1] if len(offsets) == 2 and offsets[0] == offsets[1] else ()
        if self.index < min(len(report.work), len(offset)):
            machine = (work + zero for work, zero in zip(report.work, offset, strict=False))
            return replace(report, machine=tuple(machine))
        return None

    # -- Stop and reset -----------------------------------------------------------------------

    def hold(self, deadline_s: float) -> Status | None:
        """Decelerate to a stop; return the report of it, or None if there is none in time."""
        self.send(FEED_HOLD, deadline_s)
        while self._clock.now() < deadline_s:
            status = self.ask_status_soon(deadline_s)
            if status is None or status.is_stopped:
                return status
            self._clock.sleep_until(self._clock.now() + _POLL_INTERVAL_S)
        return None

    def reset(self, deadline_s: float) -> bool:
        """Soft-reset the board; return whether its banner arrived."""
        self.forget_owed()
        self.send(RESET, deadline_s)
        return self.await_banner(deadline_s)

    def await_banner(self, deadline_s: float) -> bool:
        """Wait until the board has started; boot text and errors may precede its banner."""
        until = min(deadline_s, self._clock.now() + BANNER_WAIT_S)
        while (report := self.next_report(until)) is not None:
            if isinstance(report, Banner):
                return True
        return False

    def await_reset_request(self, deadline_s: float) -> None:
        """Wait for the message after a limit alarm: the board ignores a reset before it."""
        until = min(deadline_s, self._clock.now() + _ALARM_MESSAGE_S)
        while (report := self.next_report(until)) is not None:
            if isinstance(report, Message) and "Reset to continue" in report.text:
                return

    # -- Receiving ----------------------------------------------------------------------------

    def drain(self) -> None:
        """Process all reports that have already arrived."""
        now = self._clock.now()
        while self.next_report(now) is not None:
            pass

    def next_report(self, deadline_s: float) -> Report | None:
        """Return the next report, or None if none arrives by the deadline."""
        line = self._connection.read_message(deadline_s)
        if line is None:
            return None
        report = parse(line)
        match report:
            case Ok() | Failure():
                self._position.note_answer()
                self.owed = max(self.owed - 1, 0)
            case Status():
                self._position.note_answer()
                self._has_open_query = False
                if report.work_offset:
                    self._work_offsets = (*self._work_offsets[-1:], report.work_offset)
            case Banner():
                self._note_restart(report)
            case Alarm():
                self._note_alarm(report)
        return report

    def _note_restart(self, banner: Banner) -> None:
        self.banner = banner
        self.forget_owed()
        self._work_offsets = ()
        if not self._position.loss_is_expected:
            self._position.lose("the board was reset during the run")

    def _note_alarm(self, alarm: Alarm) -> None:
        self.alarm = alarm
        if self._position.loss_is_expected:
            return
        if alarm.code == HARD_LIMIT:  # often only noise on the wire of the switch
            self._position.note_fault(str(alarm), "check the limit switch and its wiring")
        self._position.lose(str(alarm), alarm.fix)
