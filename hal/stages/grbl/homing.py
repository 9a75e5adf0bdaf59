"""Homing of a GRBL board, and whether the result is plausible."""

from __future__ import annotations

from math import nan

from macontrol.config.model.errors import StageError
from macontrol.hal.serial.rail import Coordinates
from macontrol.hal.stages.grbl.handshake import GrblHandshake
from macontrol.hal.stages.grbl.motion import GrblMotion
from macontrol.hal.stages.grbl.protocol import REPORT_MM, RESET, Failure
from macontrol.hal.stages.grbl.session import GrblSession

_REPORTS_OF_HOME = 5
_LONGEST_EXACT = 2**23
"""These boards compute in single precision: beyond this many steps they skip some."""


class GrblHoming:
    """Finds the switch and sets the origin of the coordinates."""

    def __init__(self, session: GrblSession, handshake: GrblHandshake, motion: GrblMotion) -> None:
        self._settings = session.parts.settings
        self._session = session
        self._handshake = handshake
        self._motion = motion
        self._previous_mm = nan
        """The machine coordinate after the previous homing; kept while the stage is lost."""

    @property
    def duration_s(self) -> float:
        return self._handshake.axis.homing_time_s

    def run(self, deadline_s: float) -> None:
        session, which = self._session, self._settings.homing_command
        session.forget_owed()
        is_single = which == "axis" or (which == "auto" and "H" in self._handshake.identity.options)
        session.send(
            f"$H{self._settings.axis if is_single else ''}\n".encode("ascii"), deadline_s, answers=1
        )
        while session.owed:
            report = session.next_report(deadline_s)
            if report is None:
                raise StageError(f"{self._settings.port}: the board does not end homing in time")
            if isinstance(report, Failure):
                raise StageError(f"the board refuses to home: {report}")
        home = self._read_home(deadline_s)
        self._check_home(home)
        self._previous_mm = home
        settings, axis = self._settings, self._handshake.axis
        self._motion.begin_at(Coordinates(settings, axis, home, in_steps=False), home)

    def abort(self) -> None:
        self._session.send(RESET)

    def _read_home(self, deadline_s: float) -> float:
        """The machine coordinate after homing (mm), once two reports in a row agree.

        All positions are counted from it, so a garbled digit would shift the whole rail.
        """
        previous, axis = nan, self._settings.axis
        for _ in range(_REPORTS_OF_HOME):
            status = self._session.ask_status_soon(deadline_s)
            if status is None:
                continue
            if status.state != "Idle":
                raise StageError(f"after homing the board is in {status.state} instead of Idle")
            if axis in status.pins:
                raise StageError(f"the {axis} limit switch is closed after homing", "raise $27")
            home = self._handshake.machine_mm(status)
            if home == previous:
                return home
            previous = home
        raise StageError("after homing the board does not report the same position twice in a row")

    def _check_home(self, machine_mm: float) -> None:
        """Check at which end it is: GRBL has its zero at the positive end.

        A dialect may have its zero elsewhere, but at the same place every time.
        """
        axis = self._handshake.axis
        reported = f"after homing the board reports {machine_mm:.3f} mm"
        tolerance = 2 * axis.step_mm + REPORT_MM
        if abs(machine_mm - self._previous_mm) > tolerance:  # NaN, and so False, the first time
            raise StageError(
                f"{reported}, and the previous time it was {self._previous_mm:.3f} mm",
                "check the limit switch, and the position that the board reports",
            )
        if abs(machine_mm) > axis.step_mm * _LONGEST_EXACT:
            raise StageError(
                f"{reported}, where its numbers do not resolve a step of {axis.step_mm:g} mm",
                "correct its $100, or its zero",
            )
        at_positive = abs(machine_mm + axis.pull_off_mm) <= tolerance
        at_negative = abs(machine_mm + axis.travel_mm - axis.pull_off_mm) <= tolerance
        if at_positive != at_negative and at_positive != axis.homes_positive:
            raise StageError(
                f"{reported}, which is at the other end than configured",
                "correct $23 or stage.homing_direction",
            )
