"""A stage behind a serial port: connected, homed, recovered and closed in one way for all boards.

It is composed of parts. `Connection` and `Position` are the same for every board; `Handshake`,
`Homing` and `Motion` are the three protocols that a driver implements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Generic, Protocol, TypeAlias, TypedDict, TypeVar

from macontrol.config.model.errors import (
    BoardRestartedError,
    StageBrokenError,
    StageError,
    StopRequestedError,
)
from macontrol.config.sections.stage import SerialStageSettings
from macontrol.hal.clock import Clock
from macontrol.hal.serial.connection import Connection
from macontrol.hal.serial.framing import Framing, LineBuffer
from macontrol.hal.serial.latency import AnswerTimes, Parts
from macontrol.hal.serial.line import Line, SerialLine, TrafficLog
from macontrol.hal.serial.position import Position
from macontrol.hal.stage import Arrival, StageDescription

_ANSWER_S = 1.0
# How long a port stays closed before it is opened to reset a board that hangs.
_CLOSED_S = 0.5
# How long one recovery tries to open a port that is gone; the caller may try again.
_REOPEN_S = 5.0
# How long a handshake may take, however often the board restarts.
_HANDSHAKE_S = 30.0
_HANDSHAKE_ATTEMPTS = 3
# How much longer than planned the move from the switch to the usable rail may take.
_ENTERING_S = 2.0

_Step: TypeAlias = Callable[[float], None]
"""A step of a handshake, with its deadline (s)."""
_Settings = TypeVar("_Settings", bound=SerialStageSettings, covariant=True)


class Handshake(Protocol):
    """Bring a board to a known state and read what it is."""

    def check_settings(self) -> None:
        """Raise ConfigError if the settings alone make it useless to open the port."""

    def begin(self) -> None:
        """Forget what the board sent before."""

    def await_start(self, deadline_s: float) -> None:
        """Wait for what a board sends when its port is opened."""

    def unlock(self, deadline_s: float) -> None:
        """Clear the alarm that has locked a connected board."""

    def bring_to_idle(self, deadline_s: float) -> None:
        """Bring the board to idle from any state."""

    def identify(self, deadline_s: float) -> None:
        """Read identity and settings; raise StageBrokenError if it is not the board of before."""

    def time_answers(self, deadline_s: float) -> AnswerTimes:
        """Measure how long answers take, with questions that move nothing."""

    def describe(self, answers_s: Parts) -> StageDescription:
        """Describe the stage, with the latency that follows from these answer times (s)."""

    @property
    def identity_parts(self) -> dict[str, str]:
        """Which board this is, in named parts; known once it is identified."""


class Homing(Protocol):
    """Find the limit switch."""

    @property
    def duration_s(self) -> float:
        """The longest time that homing takes."""

    def run(self, deadline_s: float) -> None:
        """Home, and set the position; raise StageError if the result is not plausible."""

    def abort(self) -> None:
        """Stop a motor that may be searching for its switch, without waiting."""


class Motion(Protocol):
    """Move, report the position, stop: these three as in `Stage`."""

    def move_to(self, position_mm: float, deadline_s: float) -> Arrival: ...
    def where(self, deadline_s: float) -> Arrival: ...
    def stop(self) -> None: ...

    def is_ready(self, deadline_s: float) -> bool:
        """Whether the board answers and reports no fault."""


class StageOptions(TypedDict, total=False):
    """What the constructor of every serial stage takes besides settings and clock."""

    open_line: Callable[[], Line] | None
    """Opens a line in place of the serial port."""
    log: TrafficLog | None
    confirm_homing: Callable[[], bool] | None
    """Asks a person whether the stage may be homed."""


class SerialParts(Generic[_Settings]):
    """The parts that all serial stages have in common, connected to each other.

    `framing` cuts what the board sends into messages: lines, unless its protocol is binary.
    """

    def __init__(
        self,
        settings: _Settings,
        clock: Clock,
        *,
        board: str,
        framing: Callable[[], Framing] = LineBuffer,
        open_line: Callable[[], Line] | None = None,
        log: TrafficLog | None = None,
        confirm_homing: Callable[[], bool] | None = None,
    ) -> None:
        self.settings = settings
        self.confirm_homing = confirm_homing
        self.clock = clock
        self.position = Position(settings.port, clock, board)

        def open_port() -> Line:
            return SerialLine(
                settings.port,
                settings.baud_rate,
                clock,
                dtr=settings.dtr,
                rts=settings.rts,
                framing=framing(),
                log=log,
            )

        self.connection = Connection(settings.port, clock, self.position, open_line or open_port)


class SerialStage:
    """A linear stage on one axis of a board. Not thread-safe."""

    def __init__(
        self,
        parts: SerialParts[SerialStageSettings],
        handshake: Handshake,
        homing: Homing,
        motion: Motion,
    ) -> None:
        self._settings, self._clock = parts.settings, parts.clock
        self._position, self._connection = parts.position, parts.connection
        self._handshake, self._homing, self._motion = handshake, homing, motion
        self._confirm_homing = parts.confirm_homing
        self._homing_is_permitted = self._settings.homing == "allow"
        self.answer_times = AnswerTimes()
        """How long the board took to answer when it was connected."""

    @property
    def description(self) -> StageDescription:
        """What the stage is and can do; known once it is connected."""
        return self._position.description

    @property
    def identity_parts(self) -> dict[str, str]:
        """Which board this is, in named parts; known once it is connected."""
        return self._handshake.identity_parts

    @property
    def quickest_description(self) -> StageDescription:
        """The description with the latency that follows from the shortest answer times."""
        return self._handshake.describe(self.answer_times.quickest)

    @property
    def is_homed(self) -> bool:
        """Whether the position is known."""
        return self._position.is_homed

    @property
    def homing_is_due(self) -> bool:
        """Whether it is time to home again: no report shows lost steps."""
        every = self._settings.rehome_every_s
        return every != "off" and self._clock.now() - self._position.homed_at_s >= every

    # -- Connecting ---------------------------------------------------------------------------

    def connect(self, deadline_s: float, keep_on: Callable[[], bool] | None = None) -> None:
        """Open the port, bring the board to idle, read its settings.

        Nothing moves before `home`, even if the board reports that it is homed: it may have been
        moved while nothing was connected.
        """
        self._handshake.check_settings()
        with self._connection.interruptible(keep_on):
            self._connection.open()
            self._identify_opened(deadline_s)

    def time_again(self, deadline_s: float, keep_on: Callable[[], bool] | None = None) -> None:
        """Measure the answer times again, before homing: the computer may have been busy."""
        self._position.require_not_lost()
        with self._connection.interruptible(keep_on):
            self._run_handshake("it is being timed", None, (self._time_answers,), deadline_s)

    def _identify_opened(self, deadline_s: float) -> None:
        """Do the whole handshake with a board whose port was just opened."""
        handshake = self._handshake
        steps = (handshake.bring_to_idle, handshake.identify, self._time_answers)
        try:
            self._run_handshake("it is being connected", handshake.await_start, steps, deadline_s)
        except BaseException:
            self._connection.close()
            raise

    def _run_handshake(
        self, reason: str, prepare: _Step | None, steps: Sequence[_Step], deadline_s: float
    ) -> None:
        """Prepare, then run all steps in order; start over if the board restarts meanwhile."""
        until = min(deadline_s, self._clock.now() + _HANDSHAKE_S)
        with self._position.handshake(reason):
            self._handshake.begin()
            if prepare is not None:
                prepare(until)
            for attempt in range(1, _HANDSHAKE_ATTEMPTS + 1):
                try:
                    for step in steps:
                        step(until)
                    break
                except BoardRestartedError:
                    if attempt == _HANDSHAKE_ATTEMPTS:
                        raise
        self._position.restore()

    def _time_answers(self, deadline_s: float) -> None:
        self.answer_times = self._handshake.time_answers(deadline_s)
        self._position.description = self._handshake.describe(self.answer_times.usual)

    # -- Homing -------------------------------------------------------------------------------

    def home(self, deadline_s: float, keep_on: Callable[[], bool] | None = None) -> None:
        """Find the limit switch, if homing is permitted; the position is known afterwards.

        The carriage then stands at the end of the usable rail that is nearer to the switch.
        """
        with self._connection.interruptible(keep_on):
            self._home(deadline_s)

    def _home(self, deadline_s: float) -> None:
        self._position.require_not_lost()
        self._require_permission()
        self._position.begin_homing()
        try:
            self._homing.run(min(deadline_s, self._clock.now() + self._homing.duration_s))
        except BaseException:
            # Whatever failed, the motor must not continue to search for its switch.
            self._position.fail_homing()
            with suppress(StageError):
                self._homing.abort()
            raise
        self._position.homed_at_s = self._clock.now()
        if self._settings.offset_mm > 0:
            self._enter_rail(deadline_s)

    def _require_permission(self) -> None:
        """Raise StageError unless homing is permitted. A person is asked once."""
        if not self._homing_is_permitted and self._confirm_homing is not None:
            self._homing_is_permitted = self._confirm_homing()
        if not self._homing_is_permitted:
            raise StageError(
                'the stage must be homed before it moves, and stage.homing is "ask"',
                'agree when asked, give --yes, or set stage.homing to "allow"',
            )

    def _enter_rail(self, deadline_s: float) -> None:
        """Move from the switch to the near end of the usable rail."""
        stage, offset = self.description, self._settings.offset_mm
        within = stage.latency_s + stage.motion.time_s(offset) + stage.settling_s + _ENTERING_S
        end = stage.travel_mm if self._settings.inverted else 0.0
        if not self.move_to(end, min(deadline_s, self._clock.now() + within)).arrived:
            self._position.lose("the carriage did not reach the usable rail from its switch")

    # -- The Stage protocol -------------------------------------------------------------------

    def move_to(self, position_mm: float, deadline_s: float) -> Arrival:
        """Move to a position (mm) and wait for the arrival, until the deadline at most."""
        self._position.require_not_lost()
        self._position.require_homed()
        self._position.require_on_rail(position_mm)
        return self._motion.move_to(position_mm, deadline_s)

    def where(self, deadline_s: float) -> Arrival:
        """Measure the position (mm) now; `arrived` says whether the stage is at rest."""
        self._position.require_not_lost()
        return self._motion.where(deadline_s)

    def stop(self) -> None:
        """Decelerate now and drop the rest of the motion. The position stays known."""
        if self._connection.is_open:
            self._motion.stop()

    def close(self) -> None:
        """Stop, and close the port."""
        try:
            with suppress(StageError):
                self.stop()
        finally:
            self._connection.close()
            self._position.forget(f"{self._settings.port}: it is closed")

    def recover(self, deadline_s: float, keep_on: Callable[[], bool] | None = None) -> None:
        """Bring the stage to a known, freshly homed state, or raise StageError."""
        self._position.require_not_broken()
        with self._connection.interruptible(keep_on):
            if not (self.is_homed and self._is_ready()):
                self._position.tolerate_fault()
                if not self._recover_connected(deadline_s):
                    self._connection.reopen(min(deadline_s, self._clock.now() + _REOPEN_S))
                    self._identify_opened(deadline_s)
            elif not self.homing_is_due:
                return
            self._home(deadline_s)

    def _is_ready(self) -> bool:
        try:
            return self._motion.is_ready(self._clock.now() + _ANSWER_S)
        except StopRequestedError:
            raise
        except StageError:
            return False

    def _recover_connected(self, deadline_s: float) -> bool:
        """Recover over the open connection; return False if the port must be opened again."""
        if not self._connection.is_open:
            return False
        handshake = self._handshake
        steps = (handshake.bring_to_idle, handshake.identify)
        try:
            self._run_handshake("it is being recovered", handshake.unlock, steps, deadline_s)
        except (StageBrokenError, StopRequestedError):
            raise
        except StageError:
            # Opening resets a board that hangs, if the port was closed for a while.
            self._connection.close()
            self._connection.wait_until(min(deadline_s, self._clock.now() + _CLOSED_S))
            return False
        return True
