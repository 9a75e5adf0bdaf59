"""The handshake with a GRBL board: bring it to idle, read its settings, time its answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from macontrol.config.model.errors import ConfigError, NoAnswerError, StageError
from macontrol.config.sections.stage import AXES
from macontrol.hal.serial.latency import AnswerTimes, Parts, measure_until_stable
from macontrol.hal.serial.rail import describe
from macontrol.hal.stage import StageDescription
from macontrol.hal.stages.grbl.board import BoardIdentity, GrblAxis, read_axis
from macontrol.hal.stages.grbl.protocol import (
    CRITICAL_ALARMS,
    REPORT_MM,
    Message,
    Setting,
    Status,
    move_lines,
)
from macontrol.hal.stages.grbl.session import ANSWER_S, STOP_S, GrblSession

_RESETS = 3
# How often the settings are read to get the same values twice.
_READINGS = 5
# Per batch; see hal/serial/latency.py.
_TIMED_EXCHANGES = 6
_LOST_EXCHANGES = 3
# What a motion costs beyond its duration and the answer to an empty line: planning before the
# first step, GRBL's motion in segments of 10 ms, the answer to the dwell.
_PLANNING_S = 0.015

_Facts = TypeVar("_Facts")


class GrblHandshake:
    """What the board is. `identity` and `axis` are known once it is identified."""

    def __init__(self, session: GrblSession) -> None:
        parts, self._session = session.parts, session
        self._settings, self._clock, self._position = parts.settings, parts.clock, parts.position
        self._identity: BoardIdentity | None = None
        self._axis: GrblAxis | None = None

    @property
    def identity(self) -> BoardIdentity:
        return self._position.known(self._identity)

    @property
    def axis(self) -> GrblAxis:
        return self._position.known(self._axis)

    @property
    def identity_parts(self) -> dict[str, str]:
        return self.identity.parts(self._settings.axis)

    def machine_mm(self, status: Status) -> float:
        """The machine coordinate of a report, in whole steps where the report is that exact."""
        reported = status.machine[self._session.index]
        steps = self.axis.steps_per_mm
        return round(reported * steps) / steps if steps < 500 else reported

    # -- Bringing it to idle ------------------------------------------------------------------

    def check_settings(self) -> None:
        """Nothing can be checked before the board is read."""

    def begin(self) -> None:
        self._session.begin_handshake()

    def await_start(self, deadline_s: float) -> None:
        self._session.await_banner(deadline_s)

    def unlock(self, deadline_s: float) -> None:
        alarm = self._session.previous_alarm
        if alarm is not None and alarm.code in CRITICAL_ALARMS:
            self._session.await_reset_request(deadline_s)
            self._session.reset(deadline_s)

    def bring_to_idle(self, deadline_s: float) -> None:
        """Bring the board from any state to Idle or Alarm after a restart."""
        session = self._session
        status: Status | None = None
        for attempt in range(_RESETS):
            status = session.ask_status_soon(deadline_s)
            if session.banner is not None and status is not None:
                if status.state in ("Idle", "Alarm"):
                    return
            elif status is not None and status.state in ("Run", "Jog"):
                session.hold(min(deadline_s, self._clock.now() + STOP_S))
            # A board that is locked by a limit reacts only to a reset; one that was locked just
            # now ignores even the first reset.
            is_alive = session.reset(deadline_s) or status is not None
            if self._clock.now() >= deadline_s or (attempt > 0 and not is_alive):
                break
        raise self._not_idle(status)

    def _not_idle(self, status: Status | None) -> Exception:
        port, axes = self._settings.port, self._session.reported_axes
        if status is not None:
            return StageError(f"{port}: the board stays in {status.state}")
        if 0 < axes <= self._session.index:
            return ConfigError(
                f"stage.grbl.axis = {self._settings.axis!r}: the board has only the axes "
                f"{' '.join(AXES[:axes])}",
                "set stage.grbl.axis to one of them",
            )
        return NoAnswerError(
            f"{port}: no GRBL board answers at {self._settings.baud_rate} baud",
            'check the port, the preset (stage.driver is "grbl"), stage.baud_rate and the power '
            "of the board",
        )

    # -- Identity and settings ----------------------------------------------------------------

    def identify(self, deadline_s: float) -> None:
        known = self._identity
        build_known = None if known is None else (known.version, known.options)
        version, options = self._read_twice(self._read_build, build_known, deadline_s)
        settings_known = None if known is None else known.settings
        settings = self._read_twice(self._read_settings, settings_known, deadline_s)
        if known is not None and known.settings != settings:
            changed = sorted({number for number, _ in known.settings.items() ^ settings.items()})
            self._position.give_up(
                "the board came back with other settings ("
                + ", ".join(f"${number}" for number in changed[:8])
                + "): is it another board?",
                "start again",
            )
        banner = self._session.banner
        dialect = banner.dialect if banner else "Grbl"
        identity = BoardIdentity(dialect, version, options, settings)
        self._axis = read_axis(identity, self._settings)
        self._identity = identity

    def _read_twice(
        self, read: Callable[[float], _Facts | None], known: _Facts | None, deadline_s: float
    ) -> _Facts:
        """Read until two readings in a row agree, or one agrees with what is known.

        The protocol has no checksums: a byte may be garbled, or an answer cut short.
        """
        previous = known
        for _ in range(_READINGS):
            facts = read(deadline_s)
            if facts is not None and facts == previous:
                return facts
            previous = facts
            if self._clock.now() >= deadline_s:
                break
        port = self._settings.port
        if previous is None:
            raise StageError(f"{port}: the board does not send its settings in time")
        raise StageError(
            f"{port}: the board sends other settings in every reading",
            "check the cable for noise",
        )

    def _read_build(self, deadline_s: float) -> tuple[str, str] | None:
        """Version and options; None if the answer did not end in time."""
        reports = self._session.command("$I", deadline_s)
        if reports is None:
            return None
        banner = self._session.banner
        version, options = banner.version if banner else "", ""
        for report in reports:
            if isinstance(report, Message) and report.kind == "VER":
                version = report.text.partition(":")[0]
            elif isinstance(report, Message) and report.kind == "OPT":
                options = report.text.partition(",")[0]
        return version, options

    def _read_settings(self, deadline_s: float) -> dict[int, float] | None:
        """The settings by number; None if the answer did not end in time."""
        reports = self._session.command("$$", deadline_s)
        if reports is None:
            return None
        return {each.number: each.value for each in reports if isinstance(each, Setting)}

    # -- Latency ------------------------------------------------------------------------------

    def time_answers(self, deadline_s: float) -> AnswerTimes:
        """Time what a move takes: a report, and lines of its length that hold only a comment."""
        length = len(move_lines(self._settings.axis, -100.0, 100.0))
        lines = b"(" + b"-" * (length - 4) + b")\n\n"
        answered = lost = 0

        def measure() -> Parts:
            nonlocal answered, lost
            while True:
                asked = self._clock.now()
                until = min(deadline_s, asked + ANSWER_S)
                has_report = self._session.ask_status(until) is not None
                reported = self._clock.now()
                if has_report and self._session.exchange(lines, 2, until) is not None:
                    answered += 1
                    return reported - asked, self._clock.now() - reported
                lost += 1
                if lost > _LOST_EXCHANGES or self._clock.now() >= deadline_s:
                    raise StageError(
                        f"{self._settings.port}: the board did not answer {lost} of "
                        f"{answered + lost} questions",
                        "check the cable, and that no other program reads the port",
                    )

        return measure_until_stable(measure, _TIMED_EXCHANGES)

    def describe(self, answers_s: Parts) -> StageDescription:
        # A report before, the lines, and a report after, which arrives while it settles.
        report_s, lines_s = answers_s
        after_s = max(report_s - self._settings.settling_s, 0.0)
        latency_s = report_s + lines_s + _PLANNING_S + after_s
        return describe(self._settings, self.axis, latency_s=latency_s, tolerance_mm=REPORT_MM)
