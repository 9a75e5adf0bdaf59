"""Homing of a Zaber device, and whether the result is plausible."""

from __future__ import annotations

from macontrol.config.model.errors import NoAnswerError, StageError
from macontrol.hal.serial.position import SILENCE_S
from macontrol.hal.serial.rail import Coordinates
from macontrol.hal.stages.zaber.device import NEAR
from macontrol.hal.stages.zaber.handshake import ZaberHandshake
from macontrol.hal.stages.zaber.protocol import INTERRUPTED, explain, is_fault, voids_position
from macontrol.hal.stages.zaber.session import LONGEST_POLL_S, AxisStatus, ZaberSession


class ZaberHoming:
    """Finds the home sensor and sets the origin of the coordinates."""

    def __init__(self, session: ZaberSession, handshake: ZaberHandshake) -> None:
        parts, self._session = session.parts, session
        self._settings, self._clock, self._position = parts.settings, parts.clock, parts.position
        self._handshake = handshake
        self._previous: int | None = None
        """The position after the previous homing; kept while the stage is lost."""

    @property
    def duration_s(self) -> float:
        return self._handshake.axis.homing_time_s

    def run(self, deadline_s: float) -> None:
        with self._position.expecting_loss():  # until it ends, every flag says "not homed"
            self._session.ask_soon("warnings clear", deadline_s)
            reply = self._session.ask_soon("home", deadline_s)
            if reply is None:
                raise NoAnswerError(f"{self._settings.port}: the device does not answer home")
            if not reply.accepted:
                raise StageError(f"the device refuses to home: {reply.refusal}")
            home = self._await_end(deadline_s).position
            for flag in self._session.ask_flags(deadline_s):
                if voids_position(flag) or flag == INTERRUPTED:
                    raise StageError(f"homing failed: {explain(flag)}")
            self._check_home(home)
            axis = self._handshake.axis
            coordinates = Coordinates(self._settings, axis, home, in_steps=True)
            self._check_limits(home, coordinates)
        self._previous = home
        self._position.begin_at(coordinates, home)

    def abort(self) -> None:
        self._session.post("stop")

    def _await_end(self, deadline_s: float) -> AxisStatus:
        port, answered = self._settings.port, self._clock.now()
        while True:
            self._session.listen(min(deadline_s, self._clock.now() + LONGEST_POLL_S))
            status = self._session.ask_status(self._session.soon(deadline_s))
            now = self._clock.now()
            if status is not None:
                answered = now
                self._require_no_fault(status)
                if not status.busy:
                    return status
            elif now - answered >= SILENCE_S:
                raise NoAnswerError(f"{port}: the device stopped answering during homing")
            if now >= deadline_s:
                raise StageError(f"{port}: homing did not end in time")

    def _require_no_fault(self, status: AxisStatus) -> None:
        for flag in status.flags:
            if is_fault(flag):
                self._session.note_fault(flag)
                raise StageError(f"homing failed: {explain(flag)}")

    def _check_home(self, home: int) -> None:
        """Home must be the same every time, and at 0 unless stage.homing_direction is set."""
        previous, axis = self._previous, self._handshake.axis
        found = f"after homing the device is at {home} microsteps"
        if previous is not None and abs(home - previous) > NEAR:
            raise StageError(
                f"{found}, and the previous time it was at {previous}", "check its home sensor"
            )
        if self._settings.homing_direction == "auto" and abs(home - axis.home) > NEAR:
            raise StageError(
                f"{found}, and not at {axis.home}",
                "check its home sensor, or set stage.homing_direction if its home is there",
            )

    def _check_limits(self, home: int, coordinates: Coordinates) -> None:
        """The whole usable rail must be within the limits of the device."""
        axis = self._handshake.axis
        ends = coordinates.to_board(0.0), coordinates.to_board(self._position.description.travel_mm)
        if not all(axis.low <= end <= axis.high for end in ends):
            raise StageError(
                f"after homing the device is at {home} microsteps, and from there the rail exceeds "
                f"its limits [{axis.low}, {axis.high}]",
                "set stage.homing_direction, or a shorter stage.travel_mm",
            )
