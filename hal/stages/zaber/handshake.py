"""The handshake with a Zaber device: find it, stop it, read its settings, time its answers."""

from __future__ import annotations

from macontrol.config.model.errors import ConfigError, NoAnswerError, StageError
from macontrol.hal.serial.latency import AnswerTimes, Parts, measure_until_stable
from macontrol.hal.serial.rail import describe
from macontrol.hal.stage import StageDescription
from macontrol.hal.stages.zaber.device import (
    NEAR,
    DeviceIdentity,
    ZaberAxis,
    read_axis,
    read_microstep,
)
from macontrol.hal.stages.zaber.protocol import whole_number
from macontrol.hal.stages.zaber.session import ATTEMPTS, SHORTEST_POLL_S, ZaberSession

STOP_S = 5.0
# Per batch; see hal/serial/latency.py.
_TIMED_QUESTIONS = 4
# How much longer a move takes to its first step than a question takes to its answer.
_PLANNING_S = 0.002


class ZaberHandshake:
    """What the device is. `identity` and `axis` are known once it is identified."""

    def __init__(self, session: ZaberSession) -> None:
        parts, self._session = session.parts, session
        self._settings, self._clock, self._position = parts.settings, parts.clock, parts.position
        self._identity: DeviceIdentity | None = None
        self._axis: ZaberAxis | None = None

    @property
    def identity(self) -> DeviceIdentity:
        return self._position.known(self._identity)

    @property
    def axis(self) -> ZaberAxis:
        return self._position.known(self._axis)

    @property
    def identity_parts(self) -> dict[str, str]:
        return self.identity.parts

    # -- Bringing it to idle ------------------------------------------------------------------

    def check_settings(self) -> None:
        read_microstep(self._settings)

    def begin(self) -> None:
        self._session.requires_checksums = False

    def await_start(self, deadline_s: float) -> None:
        """A device sends nothing when its port is opened."""

    def unlock(self, deadline_s: float) -> None:
        """Nothing locks a device: the next homing clears a fault."""

    def bring_to_idle(self, deadline_s: float) -> None:
        """Find the device, enable its checksums, and stop it."""
        session, settings = self._session, self._settings
        for _ in range(ATTEMPTS):  # the first may end a broken line, and the next be refused
            reply = session.ask_soon("", deadline_s)
            if reply is not None:
                break
        else:
            raise NoAnswerError(
                f"{settings.port}: no Zaber device answers as device {settings.device_address} at "
                f"{settings.baud_rate} baud",
                'check the port, the preset (stage.driver is "zaber"), stage.zaber.device_address, '
                "stage.baud_rate, that the device uses ASCII (firmware 6 or 7), and its power",
            )
        if not reply.accepted:
            raise ConfigError(
                f"stage.zaber.axis = {settings.axis!r}: the device refuses commands for axis "
                f"{session.axis_number}: {reply.refusal}",
                "set stage.zaber.axis to an axis of this device",
            )
        session.requires_checksums = reply.checked or self._enable_checksums(deadline_s)
        session.stop(min(deadline_s, self._clock.now() + STOP_S))

    def _enable_checksums(self, deadline_s: float) -> bool:
        """Request that the device sends checksums; return False if it reports that it cannot.

        Silence is no such report: otherwise replies without a checksum, which may be garbled,
        would be accepted from then on.
        """
        ask = self._session.ask_soon
        for _ in range(ATTEMPTS):
            request = ask("set comm.checksum 1", deadline_s, axis=0)
            reply = ask("", deadline_s) or ask("", deadline_s)
            if reply is not None and reply.checked:
                return True
            if request is not None and reply is not None and not request.accepted:
                return False  # an older firmware
        raise StageError(
            f"{self._settings.port}: the device neither sends checksums nor reports that it cannot",
            "check the cable for noise",
        )

    # -- Identity and settings ----------------------------------------------------------------

    def identify(self, deadline_s: float) -> None:
        session = self._session
        firmware = session.get("version", deadline_s, axis=0)
        approach = session.ask_soon("get limit.approach.maxspeed", deadline_s)
        seek = whole_number(approach.data) if approach and approach.accepted else None
        maxspeed = session.get_whole("maxspeed", deadline_s)
        identity = DeviceIdentity(
            firmware=firmware,
            device_id=session.get_whole("deviceid", deadline_s, axis=0),
            serial=session.get_whole("system.serial", deadline_s, axis=0),
            resolution=session.get_whole("resolution", deadline_s),
            low=session.get_whole("limit.min", deadline_s),
            high=session.get_whole("limit.max", deadline_s),
            maxspeed=maxspeed,
            accel=session.get_whole("accel", deadline_s),
            approach=seek or maxspeed,
        )
        if self._identity is not None and self._identity != identity:
            self._position.give_up(
                "the device came back with another serial number or other settings: is it another "
                "device?",
                "start again",
            )
        self._axis = read_axis(identity, self._settings)
        self._identity = identity

    # -- Latency ------------------------------------------------------------------------------

    def time_answers(self, deadline_s: float) -> AnswerTimes:
        """Time questions for the position, which are as long as moves."""

        def measure() -> Parts:
            asked = self._clock.now()
            self._session.get_whole("pos", deadline_s)
            return (self._clock.now() - asked,)

        return measure_until_stable(measure, _TIMED_QUESTIONS)

    def describe(self, answers_s: Parts) -> StageDescription:
        # A question for the flags, the move, and a last question that was just too early.
        latency_s = 3 * answers_s[0] + _PLANNING_S + SHORTEST_POLL_S
        tolerance_mm = max((NEAR - 0.5) * self.axis.step_mm, 1e-3)
        return describe(self._settings, self.axis, latency_s=latency_s, tolerance_mm=tolerance_mm)
