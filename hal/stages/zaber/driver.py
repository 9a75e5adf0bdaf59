"""A stage driven by a Zaber device, in its ASCII protocol (firmware 6 and 7).

A device answers at once and moves meanwhile; it is asked for its position until it says that it
is idle. Every answer carries flags. Where the carriage is, is believed only between a homing of
ours and the first flag that voids it, or a loss of connection: an unknown position is never moved
from. A device that was switched off and on shows that only by a flag, so its flags are looked at
before every move.

Nothing is stored in the device but the wish that its answers carry checksums.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, floor, inf

from macontrol.config.model.errors import ConfigError, StageError, StageLostError
from macontrol.config.sections.stage import AXES
from macontrol.hal.clock import Clock
from macontrol.hal.serial.latency import Parts, measure_until_stable
from macontrol.hal.serial.line import Line, TrafficLog
from macontrol.hal.serial.stage import SerialStage
from macontrol.hal.stage import Arrival, StageDescription
from macontrol.hal.stages.zaber.device import DeviceAxis, DeviceIdentity, read_axis, read_microstep
from macontrol.hal.stages.zaber.protocol import (
    HIDING_FLAGS,
    INTERRUPTED,
    NO_FLAG,
    STALLED,
    Alert,
    Message,
    Noise,
    Reply,
    encode,
    explain,
    is_fault,
    number,
    parse,
    voids_position,
    whole_number,
)
from macontrol.hal.stages.zaber.settings import ZaberSettings

_ANSWER_S = 0.5
_ATTEMPTS = 4
# Somebody waits for the end when a lost stage is stopped.
_BLIND_ATTEMPTS = 2
_STOP_S = 5.0
# In a batch; see hal/serial/latency.py.
_TIMED_QUESTIONS = 4
# Silence for so long in the midst of a motion is looked into.
_SILENCE_S = 1.0
# How long a motion is left alone before it is looked at again, at the shortest and longest.
_SHORTEST_LOOK_S = 0.002
_LONGEST_LOOK_S = 0.05
# What a command with a motion takes until its first step beyond what a question takes.
_PLANNING_S = 0.002
# A device with an encoder may stand this far (microsteps) from where it was sent, or a micrometre
# and a microstep if that is more.
_NEAR = 8


@dataclass(frozen=True, slots=True)
class _Status:
    """What the device said of its axis at one moment."""

    position: int
    busy: bool
    flags: tuple[str, ...]


class ZaberStage(SerialStage):
    """A linear stage on one axis of a Zaber device."""

    BOARD = "device"
    _settings: ZaberSettings

    def __init__(
        self,
        settings: ZaberSettings,
        clock: Clock,
        *,
        open_line: Callable[[], Line] | None = None,
        log: TrafficLog | None = None,
        confirm_homing: Callable[[], bool] | None = None,
    ) -> None:
        super().__init__(
            settings, clock, open_line=open_line, log=log, confirm_homing=confirm_homing
        )
        self._number = AXES.index(settings.axis) + 1
        self._identity: DeviceIdentity | None = None
        self._axis: DeviceAxis | None = None
        self._offset = 0
        """From where homing ends to the usable rail, in microsteps."""
        self._length = 0
        """Of the usable rail, in microsteps."""
        self._origin: int | None = None
        """Where it stands after homing, in microsteps."""
        self._home_before: int | None = None
        """The same, known even while the position is not."""
        self._checked = False
        """Whether the device's answers carry checksums, so that one without is none of its."""
        self._message_id = 0

    # -- What is known of it ------------------------------------------------------------------

    @property
    def identity(self) -> DeviceIdentity:
        """Get what the device says of itself; known once it is connected."""
        return self._known(self._identity)

    @property
    def identity_parts(self) -> dict[str, str]:
        return self.identity.parts

    @property
    def axis(self) -> DeviceAxis:
        """Get what the device says of its axis; known once it is connected."""
        return self._known(self._axis)

    # -- Connecting ---------------------------------------------------------------------------

    def connect(self, deadline_s: float, keep_on: Callable[[], bool] | None = None) -> None:
        """Meet the device, if the config says how long its microsteps are."""
        read_microstep(self._settings)
        super().connect(deadline_s, keep_on)

    def _begin_handshake(self) -> None:
        self._checked = False

    def _greet(self, deadline_s: float) -> None:
        """It says nothing of itself when it is opened."""

    def _settle(self, deadline_s: float) -> None:
        """Find the device, have its answers carry checksums, and bring it to a stand."""
        for _ in range(_ATTEMPTS):  # the first may end a broken line, and the next be refused
            reply = self._ask("", self._soon(deadline_s))
            if reply is not None:
                break
        else:
            raise StageError(
                f"{self._settings.port}: no Zaber device answers as device "
                f"{self._settings.device_address} at {self._settings.baud_rate} baud; is it the "
                'right port and preset (stage.driver is "zaber"), are stage.device_address and '
                "stage.baud_rate right, does it speak ASCII (firmware 6 or 7), is it powered?"
            )
        if not reply.accepted:
            raise ConfigError(
                f"stage.axis = {self._settings.axis!r}: the device refuses to talk of axis "
                f"{self._number}: {reply.refusal}"
            )
        self._checked = reply.checked or self._have_checksums(deadline_s)
        self._bring_to_a_stand(min(deadline_s, self._clock.now() + _STOP_S))

    def _have_checksums(self, deadline_s: float) -> bool:
        """Ask the device to send checksums; False if it says that it cannot.

        That is never concluded from silence: answers without checksums, as garbled ones may be,
        would be believed from then on.
        """
        for _ in range(_ATTEMPTS):
            wish = self._ask("set comm.checksum 1", self._soon(deadline_s), axis=0)
            again = self._ask("", self._soon(deadline_s)) or self._ask("", self._soon(deadline_s))
            if again is not None and again.checked:
                return True
            if wish is not None and again is not None and not wish.accepted:
                return False  # an older firmware: it goes without
        raise StageError(
            f"{self._settings.port}: the device neither sends checksums nor says that it cannot; "
            "is there noise on the line?"
        )

    def _bring_to_a_stand(self, deadline_s: float) -> _Status:
        """Stop it, and wait until it stands; StageError if it does not, or falls silent.

        A stop is sent again only if it was not answered: one that reaches a motor while it slows
        down may halt it at once, and cost it steps.
        """
        silent = 0
        while silent < _ATTEMPTS and self._ask("stop", self._soon(deadline_s)) is None:
            silent += 1
        while silent < _ATTEMPTS and self._clock.now() < deadline_s:
            status = self._status(self._soon(deadline_s))
            if status is not None and not status.busy:
                return status
            silent = silent + 1 if status is None else 0
            self._listen(min(deadline_s, self._clock.now() + 10 * _SHORTEST_LOOK_S))
        raise StageError(f"{self._settings.port}: the device could not be stopped")

    def _identify(self, deadline_s: float) -> None:
        firmware = self._get("version", deadline_s, axis=0)
        approach = self._ask("get limit.approach.maxspeed", self._soon(deadline_s))
        seek = whole_number(approach.data) if approach and approach.accepted else None
        maxspeed = self._get_whole("maxspeed", deadline_s)
        identity = DeviceIdentity(
            firmware=firmware,
            device_id=self._get_whole("deviceid", deadline_s, axis=0),
            serial=self._get_whole("system.serial", deadline_s, axis=0),
            resolution=self._get_whole("resolution", deadline_s),
            low=self._get_whole("limit.min", deadline_s),
            high=self._get_whole("limit.max", deadline_s),
            maxspeed=maxspeed,
            accel=self._get_whole("accel", deadline_s),
            approach=seek or maxspeed,
        )
        if self._identity is not None and self._identity != identity:
            self._give_up(
                "the device came back with another serial number or other settings; "
                "is it another one? Start again"
            )
        self._axis = read_axis(identity, self._settings)
        self._identity = identity

    def _time_answers(self, deadline_s: float) -> None:
        """Time questions for the position, which are as long as moves."""

        def measure() -> Parts:
            asked = self._clock.now()
            self._get_whole("pos", deadline_s)
            return (self._clock.now() - asked,)

        self._answer_times = measure_until_stable(measure, _TIMED_QUESTIONS)

    def _latency_from(self, answers_s: Parts) -> float:
        """Its flags are asked for, the move is sent, and the last look may be just too early."""
        return 3 * answers_s[0] + _PLANNING_S + _SHORTEST_LOOK_S

    def _describe(self) -> StageDescription:
        axis, settings = self.axis, self._settings
        step = axis.microstep_mm
        self._offset = ceil(settings.offset_mm / step - 1e-9)
        travel = axis.usable_mm - self._offset * step
        if settings.travel_mm != "auto":
            travel = min(travel, settings.travel_mm)
        self._length = floor(travel / step + 1e-9)
        speed = settings.speed_mm_per_s
        return StageDescription(
            name=os.path.realpath(settings.port),
            travel_mm=self._length * step,
            step_mm=step,
            speed_mm_per_s=axis.speed_mm_per_s if speed == "auto" else speed,
            acceleration_mm_per_s2=axis.acceleration_mm_per_s2,
            latency_s=self._latency_from(self._answer_times.usual),
            settling_s=settings.settling_s,
            tolerance_mm=max((_NEAR - 0.5) * step, 1e-3),
        )

    # -- Homing -------------------------------------------------------------------------------

    @property
    def _homing_time_s(self) -> float:
        return self.axis.homing_time_s

    def _run_homing(self, deadline_s: float) -> None:
        self._in_handshake = True  # it says all the while that it is not homed
        try:
            home = self._seek_home(deadline_s)
        finally:
            self._in_handshake = False
        self._origin = self._home_before = home
        self._reported_mm = self._to_rail(home)

    def _break_off_homing(self) -> None:
        self._post("stop")

    def _seek_home(self, deadline_s: float) -> int:
        """Home; where it stands then, in microsteps."""
        self._ask("warnings clear", self._soon(deadline_s))
        begun = self._ask("home", self._soon(deadline_s))
        if begun is None:
            raise StageError(f"{self._settings.port}: the device does not answer home")
        if not begun.accepted:
            raise StageError(f"the device refuses to home: {begun.refusal}")
        heard = self._clock.now()
        while True:
            self._listen(min(deadline_s, self._clock.now() + _LONGEST_LOOK_S))
            status = self._status(self._soon(deadline_s))
            now = self._clock.now()
            if status is not None:
                heard = now
                self._refuse_fault(status)
                if not status.busy:
                    break
            elif now - heard >= _SILENCE_S:
                raise StageError(f"{self._settings.port}: the device has fallen silent in homing")
            if now >= deadline_s:
                raise StageError(f"{self._settings.port}: homing did not end in time")
        flags = self._all_flags(deadline_s)
        wrong = [flag for flag in flags if voids_position(flag) or flag == INTERRUPTED]
        if wrong:
            raise StageError(f"homing failed: {explain(wrong[0])}")
        self._check_home(status.position)
        self._check_rail(status.position)
        return status.position

    def _refuse_fault(self, status: _Status) -> None:
        for flag in status.flags:
            if is_fault(flag):
                self._complain(flag)
                raise StageError(f"homing failed: {explain(flag)}")

    def _check_home(self, home: int) -> None:
        """It ends at the same place every time, and at the known one unless the config has a say.

        A device whose home is elsewhere than at 0 is one for which somebody has told at which end.
        """
        before, axis = self._home_before, self.axis
        if before is not None and abs(home - before) > _NEAR:
            raise StageError(
                f"after homing the device stands at {home} microsteps, and the time before it "
                f"stood at {before}; look at its home sensor"
            )
        if self._settings.homing_direction == "auto" and abs(home - axis.home) > _NEAR:
            raise StageError(
                f"after homing the device stands at {home} microsteps, and not at {axis.home}; "
                "look at its home sensor, or set stage.homing_direction if its home is there"
            )

    def _check_rail(self, home: int) -> None:
        """The whole usable rail must lie within the device's limits."""
        away = -1 if self.axis.homes_positive else 1
        ends = (home + away * self._offset, home + away * (self._offset + self._length))
        if not all(self.axis.low <= end <= self.axis.high for end in ends):
            raise StageError(
                f"after homing the device stands at {home} microsteps, from where the rail would "
                f"leave its limits [{self.axis.low}, {self.axis.high}]; set "
                "stage.homing_direction, or a shorter stage.travel_mm"
            )

    # -- The Stage protocol -------------------------------------------------------------------

    def move_to(self, position_mm: float, deadline_s: float) -> Arrival:
        """Move to a position (mm) and wait for the arrival, at the longest until the deadline."""
        self._refuse_if_lost()
        self._refuse_if_not_homed()
        self._refuse_off_rail(position_mm)
        before = self._demand_status(deadline_s)
        if before.busy:
            raise StageError(self._why_busy(before))
        said, self._reported_mm = self._reported_mm, self._to_rail(before.position)
        self._refuse_if_moved_from(said)
        target = self._to_device(position_mm)
        speed = "" if self.axis.move_speed is None else f" {self.axis.move_speed}"
        self._still_at_s = inf
        sent = self._clock.now()
        reply = self._ask(f"move abs {target}{speed}", self._soon(deadline_s))
        if reply is not None and not reply.accepted:
            self._still_at_s = -inf
            raise StageError(f"the device refuses to move to {position_mm:.4f} mm: {reply.refusal}")
        distance = abs(target - before.position) * self.axis.microstep_mm
        expected = sent + self.description.motion_time_s(distance)
        return self._await_arrival(target, expected, deadline_s)

    def _await_arrival(self, target: int, expected_s: float, deadline_s: float) -> Arrival:
        """Look at the motion until it is over: seldom at first, closely when it is due to end."""
        heard = self._clock.now()
        while True:
            pause = min(max(expected_s - self._clock.now(), _SHORTEST_LOOK_S), _LONGEST_LOOK_S)
            self._listen(min(deadline_s, self._clock.now() + pause))
            if self._clock.now() >= deadline_s:
                return Arrival(self._reported_mm, False, self._clock.now())
            status = self._status(self._soon(deadline_s))
            if status is not None:
                heard = self._clock.now()
                self._reported_mm = self._to_rail(status.position)
                if not status.busy:
                    break
            elif self._clock.now() - heard >= _SILENCE_S:
                self._note_silence(heard)
        self._still_at_s = self._clock.now() + self._settings.settling_s
        if not self.description.is_near(self._reported_mm, self._to_rail(target)):
            what = explain(INTERRUPTED) if INTERRUPTED in status.flags else "it stands elsewhere"
            raise StageError(
                f"the stage was sent to {self._to_rail(target):.4f} mm and stands at "
                f"{self._reported_mm:.4f} mm: {what}"
            )
        self._clock.sleep_until(min(self._still_at_s, deadline_s))
        now = self._clock.now()
        return Arrival(self._reported_mm, self._still_at_s <= now, min(self._still_at_s, now))

    def where(self, deadline_s: float) -> Arrival:
        """Measure the position (mm) now; `arrived` says whether the stage stands still."""
        self._refuse_if_lost()
        status = self._demand_status(deadline_s)
        self._refuse_if_not_homed()
        self._reported_mm = self._to_rail(status.position)
        now = self._clock.now()
        if status.busy:
            self._still_at_s = inf
        elif self._still_at_s == inf:
            self._still_at_s = now + self._settings.settling_s
        return Arrival(self._reported_mm, now >= self._still_at_s, now)

    def _demand_status(self, deadline_s: float) -> _Status:
        asked = self._clock.now()
        while (status := self._status(self._soon(deadline_s))) is None:
            now = self._clock.now()
            if now >= deadline_s or now - asked >= _SILENCE_S:
                self._note_silence(asked)
        self._silent_since_s = None
        return status

    def _why_busy(self, status: _Status) -> str:
        if "NC" in status.flags:
            return f"the stage is held up: {explain('NC')}"
        return "the stage is still busy with an earlier move"

    def stop(self) -> None:
        """Stop the motion at once: decelerate, and drop the rest. The position is kept."""
        if self._line is None:
            return
        if self._lost is not None:
            self._stop_blindly()
            return
        try:
            status = self._bring_to_a_stand(self._clock.now() + _STOP_S)
        except StageLostError:
            raise
        except StageError as error:
            self._lose(str(error))
        if self._origin is not None:
            self._reported_mm = self._to_rail(status.position)
        if self._still_at_s == inf:
            self._still_at_s = self._clock.now() + self._settings.settling_s

    def _stop_blindly(self) -> None:
        """Stop a stage whose position is not known: what its flags say does not matter."""
        self._in_handshake = True
        try:
            for _ in range(_BLIND_ATTEMPTS):
                if self._ask("stop", self._clock.now() + _ANSWER_S) is not None:
                    return
        finally:
            self._in_handshake = False

    def _is_well(self, deadline_s: float) -> bool:
        return self._status(deadline_s) is not None

    def _free(self, deadline_s: float) -> None:
        """Nothing locks it: a fault ends with the next homing."""

    # -- Talking ------------------------------------------------------------------------------

    def _soon(self, deadline_s: float) -> float:
        return min(deadline_s, self._clock.now() + _ANSWER_S)

    def _get(self, name: str, deadline_s: float, *, axis: int | None = None) -> str:
        """Read a setting; asked again if the answer does not come, as it may have been spoilt."""
        for _ in range(_ATTEMPTS):
            reply = self._ask(f"get {name}", self._soon(deadline_s), axis=axis)
            if reply is not None and not reply.accepted:
                raise StageError(f"the device does not tell its {name}: {reply.refusal}")
            if reply is not None and number(reply.data) is not None:
                return reply.data
            if self._clock.now() >= deadline_s:
                break
        raise StageError(f"{self._settings.port}: the device does not tell its {name}")

    def _get_whole(self, name: str, deadline_s: float, *, axis: int | None = None) -> int:
        value = number(self._get(name, deadline_s, axis=axis))
        assert value is not None
        return round(value)

    def _status(self, deadline_s: float) -> _Status | None:
        """Ask where it is, whether it moves and what is wrong; None if nothing came in time."""
        reply = self._ask("get pos", deadline_s)
        position = None if reply is None else whole_number(reply.data)
        if reply is None or position is None or not reply.accepted:
            return None
        flags: tuple[str, ...] = () if reply.flag == NO_FLAG else (reply.flag,)
        if reply.flag in HIDING_FLAGS:
            flags = self._all_flags(deadline_s)
        return _Status(position, reply.busy, flags)

    def _all_flags(self, deadline_s: float) -> tuple[str, ...]:
        """Ask for every flag that is up: an answer shows only the gravest."""
        reply = self._ask("warnings", self._soon(deadline_s))
        if reply is None or not reply.accepted:
            raise StageError(f"{self._settings.port}: the device does not tell its flags")
        flags = tuple(reply.data.split()[1:])
        for flag in flags:
            self._heed(flag)
        return flags

    def _ask(self, text: str, deadline_s: float, *, axis: int | None = None) -> Reply | None:
        """Send a command and get its answer; None if there is none by the deadline."""
        about = self._number if axis is None else axis
        self._post(text, deadline_s, axis=about)
        while (message := self._next(deadline_s)) is not None:
            if (
                isinstance(message, Reply)
                and message.message_id == self._message_id
                and message.axis == about
            ):
                return message
            if self._clock.now() >= deadline_s:
                break
        return None

    def _listen(self, deadline_s: float) -> None:
        """Let time pass, until the device says of itself that it stands."""
        while (message := self._next(deadline_s)) is not None:
            if isinstance(message, Alert) and message.axis == self._number and not message.busy:
                return
            if self._clock.now() >= deadline_s:
                return

    def _next(self, deadline_s: float) -> Message | None:
        """Get what is said next; what other devices of the chain say is Noise."""
        line = self._read_line(deadline_s)
        if line is None:
            return None
        message = parse(line)
        if isinstance(message, Noise):
            return message
        if message.device != self._settings.device_address:
            return Noise(line)
        if self._checked and not message.checked:
            return Noise(line)
        self._silent_since_s = None  # late perhaps, but it answers
        if isinstance(message, Reply | Alert) and (
            message.axis == self._number
            # What is said of the device as a whole may be about another axis; a fault is heeded.
            or (message.axis == 0 and is_fault(message.flag))
        ):
            self._heed(message.flag)
        return message

    def _heed(self, flag: str) -> None:
        """A flag that voids the position makes it unknown."""
        if voids_position(flag) and not self._in_handshake:
            self._complain(flag)
            self._lose(explain(flag))

    def _complain(self, flag: str) -> None:
        if flag == STALLED:
            self._complaint = (
                f"{explain(STALLED)} It is the second time: look at the rail, the cable and the "
                "load before it is started again"
            )

    def _post(self, text: str, deadline_s: float = inf, *, axis: int | None = None) -> None:
        """Send a command and wait for nothing."""
        self._message_id = (self._message_id + 1) % 100
        about = self._number if axis is None else axis
        data = encode(self._settings.device_address, about, self._message_id, text)
        self._write(data, deadline_s)

    def _forget_position(self, why: str | None) -> None:
        super()._forget_position(why)
        self._origin = None

    # -- Coordinates --------------------------------------------------------------------------

    def _to_rail(self, device: int) -> float:
        away = -1 if self.axis.homes_positive else 1
        along = (device - self._known(self._origin)) * away - self._offset
        along = self._length - along if self._settings.inverted else along
        return along * self.axis.microstep_mm

    def _to_device(self, position_mm: float) -> int:
        """The microstep nearest to a position, which is on the rail whatever the rounding."""
        along = min(max(round(position_mm / self.axis.microstep_mm), 0), self._length)
        along = self._length - along if self._settings.inverted else along
        away = -1 if self.axis.homes_positive else 1
        return self._known(self._origin) + away * (along + self._offset)
