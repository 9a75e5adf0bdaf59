"""What every stage behind a serial port does, whatever language its board speaks.

It is connected, homed, lost, recovered and closed in one way. Where the carriage is, is believed
only between a homing and the first sign that it may be elsewhere: then the stage is lost, and an
unknown position is never moved from. A driver says how its board is met, homed and freed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from math import inf, isfinite, nan
from typing import NoReturn, TypeVar

from macontrol.config.model.errors import (
    LineLostError,
    StageBrokenError,
    StageError,
    StageLostError,
)
from macontrol.config.sections.stage import SerialStageSettings
from macontrol.hal.clock import Clock
from macontrol.hal.serial.latency import AnswerTimes, Parts
from macontrol.hal.serial.line import Line, SerialLine, TrafficLog, open_with_back_off
from macontrol.hal.stage import Arrival, StageDescription

_ROUNDING_MM = 1e-6
"""Commands may exceed the rail by this much of rounding; they are then taken back to its end."""
_ANSWER_S = 1.0
_CLOSED_S = 0.5
# How long a port that is gone is waited for in one recovery; whoever wants it tries again.
_REOPEN_S = 5.0
# How long it may take to get to know a board whose port is open, however often it starts anew.
_MEETING_S = 30.0
_MEETINGS = 3
# A board that has not answered for so long is taken for lost.
_SILENCE_S = 1.0
# How much longer than planned the way from the switch to the usable rail may take.
_ENTERING_S = 2.0
# A second time within this time is not chance any more.
_PARDON_S = 600.0
# How often somebody who may want to end a long wait is asked.
_ASKED_EVERY_S = 0.1

_Fact = TypeVar("_Fact")


class _ToldToStopError(StageError):
    """Whoever waits for the stage does not want to wait any longer."""


class RestartedError(StageError):
    """The board has started anew while it was being met: what it has said so far is void."""


class SerialStage(ABC):
    """A linear stage on one axis of a board. Not for use by two threads at once."""

    BOARD = "board"
    """What its makers call the thing at the other end of the line."""

    def __init__(
        self,
        settings: SerialStageSettings,
        clock: Clock,
        *,
        open_line: Callable[[], Line] | None = None,
        log: TrafficLog | None = None,
        confirm_homing: Callable[[], bool] | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._open_line = open_line or (lambda: self._open_port(log))
        self._confirm_homing = confirm_homing
        self._may_home = settings.homing == "allow"
        self._keep_on: Callable[[], bool] | None = None
        """Asked in the long waits of connecting, homing and recovering."""
        self._line: Line | None = None
        self._description: StageDescription | None = None
        self._answer_times = AnswerTimes()
        # What is known of the position. A lost stage must be recovered before it is homed.
        self._lost: str | None = "it is not connected"
        self._given_up: str | None = None
        self._homed_at_s = -inf
        self._reported_mm = nan
        self._still_at_s = -inf
        """From when on the antenna stands still; infinite while it moves."""
        # What was last heard.
        self._in_handshake = False
        self._silent_since_s: float | None = None
        self._complaint: str | None = None
        """What is pardoned once, and then not for a while."""
        self._pardoned_at_s = -inf

    # -- What is known of it ------------------------------------------------------------------

    @property
    def description(self) -> StageDescription:
        """Get what the stage is and can do; known once it is connected."""
        return self._known(self._description)

    @property
    @abstractmethod
    def identity_parts(self) -> dict[str, str]:
        """Get which board this is, in named parts; known once it is connected."""

    @property
    def answer_times(self) -> AnswerTimes:
        """Get how long the board took to answer when it was connected."""
        return self._answer_times

    @property
    def quickest_description(self) -> StageDescription:
        """Get the description as it would be if every answer took as long as the quickest ones."""
        latency_s = self._latency_from(self._answer_times.quickest)
        return replace(self.description, latency_s=latency_s)

    @property
    def is_homed(self) -> bool:
        """Get whether the position is known."""
        return self._lost is None and isfinite(self._homed_at_s)

    @property
    def homing_is_due(self) -> bool:
        """Get whether it is time to home again, as lost steps do not show in any report."""
        every = self._settings.rehome_every_s
        return every != "off" and self._clock.now() - self._homed_at_s >= every

    # -- Connecting ---------------------------------------------------------------------------

    def connect(self, deadline_s: float, keep_on: Callable[[], bool] | None = None) -> None:
        """Open the port, find the board, free it of what it is stuck in, read its settings.

        Nothing moves before `home`, even if the board says that it is homed: nobody has watched
        it meanwhile.
        """
        with self._asking(keep_on):
            self._close_line()
            self._line = self._open_line()
            self._meet(deadline_s)

    def _meet(self, deadline_s: float) -> None:
        """Get to know a board behind a port that was just opened."""
        until = min(deadline_s, self._clock.now() + _MEETING_S)
        with self._handshake("it is being connected"):
            try:
                self._greet(until)
                self._go_through((self._settle, self._identify, self._time_answers), until)
                self._description = self._describe()
            except BaseException:
                self._close_line()
                raise
        self._lost = None

    def time_again(self, deadline_s: float, keep_on: Callable[[], bool] | None = None) -> None:
        """Time a connected board once more, before it is homed: the computer may have been busy."""
        self._refuse_if_lost()
        until = min(deadline_s, self._clock.now() + _MEETING_S)
        with self._asking(keep_on), self._handshake("it is being timed"):
            self._go_through((self._time_answers,), until)
            self._description = self._describe()
        self._lost = None

    def _go_through(self, steps: Sequence[Callable[[float], None]], deadline_s: float) -> None:
        """Do one after the other, from the beginning again if the board starts anew meanwhile."""
        for attempt in range(1, _MEETINGS + 1):
            try:
                for step in steps:
                    step(deadline_s)
                return
            except RestartedError:
                if attempt == _MEETINGS:
                    raise

    @contextmanager
    def _handshake(self, why: str) -> Iterator[None]:
        """A stretch in which the position is unknown, and signs that say so are expected."""
        self._forget_position(why)
        self._in_handshake = True
        self._begin_handshake()
        try:
            yield
        finally:
            self._in_handshake = False

    @abstractmethod
    def _begin_handshake(self) -> None:
        """Forget what was said before."""

    @abstractmethod
    def _greet(self, deadline_s: float) -> None:
        """Wait for what a board says when its port is opened."""

    @abstractmethod
    def _settle(self, deadline_s: float) -> None:
        """Have a board that does whatever it does stand still and listen."""

    @abstractmethod
    def _identify(self, deadline_s: float) -> None:
        """Read who it is and its settings; give up on one that is another than before."""

    @abstractmethod
    def _time_answers(self, deadline_s: float) -> None:
        """Time some questions that move nothing."""

    @abstractmethod
    def _latency_from(self, answers_s: Parts) -> float:
        """What a move costs beside its motion and its settling (s), if answers take this long."""

    @abstractmethod
    def _describe(self) -> StageDescription:
        """What follows from the board's settings and the config."""

    # -- Homing -------------------------------------------------------------------------------

    def home(self, deadline_s: float, keep_on: Callable[[], bool] | None = None) -> None:
        """Find the limit switch, if homing is allowed; afterwards the position is known.

        The carriage then stands at the end of the usable rail that is nearer to the switch.
        """
        with self._asking(keep_on):
            self._home(deadline_s)

    def _home(self, deadline_s: float) -> None:
        self._refuse_if_lost()
        self._require_leave_to_home()
        self._forget_position(None)
        now = self._clock.now
        try:
            self._run_homing(min(deadline_s, now() + self._homing_time_s))
        except BaseException:
            # A motor that seeks its switch is not left to itself, whatever has happened.
            self._lost = self._lost or "homing failed"
            with suppress(StageError):
                self._break_off_homing()
            raise
        self._homed_at_s = now()
        if self._settings.offset_mm > 0:
            self._enter_rail(deadline_s)

    def _enter_rail(self, deadline_s: float) -> None:
        """Go from the switch to the near end of the usable rail."""
        stage, offset = self.description, self._settings.offset_mm
        within = stage.latency_s + stage.motion_time_s(offset) + stage.settling_s + _ENTERING_S
        end = stage.travel_mm if self._settings.inverted else 0.0
        if not self.move_to(end, min(deadline_s, self._clock.now() + within)).arrived:
            self._lose("the carriage did not get from its switch to the usable rail in time")

    def _require_leave_to_home(self) -> None:
        """Raise StageError unless homing is allowed, or somebody agrees to it: once for all."""
        if not self._may_home and self._confirm_homing is not None:
            self._may_home = self._confirm_homing()
        if not self._may_home:
            raise StageError(
                "the stage must be homed before it moves, and nobody has agreed to it: "
                'stage.homing is "ask"; agree when asked, give --yes, or set it to "allow"'
            )

    @property
    @abstractmethod
    def _homing_time_s(self) -> float:
        """How long homing can take."""

    @abstractmethod
    def _run_homing(self, deadline_s: float) -> None:
        """Home, and take over where it stands then; StageError if anything is not as it should."""

    @abstractmethod
    def _break_off_homing(self) -> None:
        """Stop a motor that may be seeking its switch, waiting for nothing."""

    # -- The Stage protocol -------------------------------------------------------------------

    @abstractmethod
    def move_to(self, position_mm: float, deadline_s: float) -> Arrival:
        """Move to a position (mm) and wait for the arrival, at the longest until the deadline."""

    @abstractmethod
    def where(self, deadline_s: float) -> Arrival:
        """Measure the position (mm) now; `arrived` says whether the stage stands still."""

    @abstractmethod
    def stop(self) -> None:
        """Stop the motion at once: decelerate, then drop the rest. The position is kept."""

    def close(self) -> None:
        """Stop, and let go of the port."""
        try:
            with suppress(StageError):
                self.stop()
        finally:
            self._close_line()
            self._forget_position("it is closed")

    def recover(self, deadline_s: float, keep_on: Callable[[], bool] | None = None) -> None:
        """Bring the stage to a known, freshly homed state, or raise StageError."""
        if self._given_up is not None:
            raise StageBrokenError(self._given_up)
        with self._asking(keep_on):
            if not (self.is_homed and self._is_sound()):
                self._pardon_once()
                if not self._revive(deadline_s):
                    until = min(deadline_s, self._clock.now() + _REOPEN_S)
                    self._line = open_with_back_off(
                        self._open_line, self._clock, until, self._wait_until
                    )
                    self._meet(deadline_s)
            elif not self.homing_is_due:
                return
            self._home(deadline_s)

    def _is_sound(self) -> bool:
        try:
            return self._is_well(self._clock.now() + _ANSWER_S)
        except _ToldToStopError:
            raise
        except StageError:
            return False

    @abstractmethod
    def _is_well(self, deadline_s: float) -> bool:
        """Whether the board answers, and has nothing to complain of."""

    def _pardon_once(self) -> None:
        """What strikes once may be chance. Twice in a while, and something is wrong."""
        complaint, self._complaint = self._complaint, None
        if complaint is None:
            return
        now = self._clock.now()
        if now - self._pardoned_at_s < _PARDON_S:
            self._give_up(complaint)
        self._pardoned_at_s = now

    def _revive(self, deadline_s: float) -> bool:
        """Go on over the connection there is; False if it has to be opened anew."""
        if self._line is None:
            return False
        try:
            until = min(deadline_s, self._clock.now() + _MEETING_S)
            with self._handshake(self._lost or "it is being recovered"):
                self._free(until)
                self._go_through((self._settle, self._identify), until)
        except (StageBrokenError, _ToldToStopError):
            raise
        except StageError:
            # A board that hangs is reset by being opened, if it was closed for a while.
            self._close_line()
            self._wait_until(min(deadline_s, self._clock.now() + _CLOSED_S))
            return False
        self._lost = None
        return True

    @abstractmethod
    def _free(self, deadline_s: float) -> None:
        """Take a board out of what has locked it."""

    # -- Talking ------------------------------------------------------------------------------

    def _open_port(self, log: TrafficLog | None) -> Line:
        settings = self._settings
        return SerialLine(
            settings.port,
            settings.baud_rate,
            self._clock,
            dtr=settings.dtr,
            rts=settings.rts,
            log=log,
        )

    @contextmanager
    def _asking(self, keep_on: Callable[[], bool] | None) -> Iterator[None]:
        """A stretch whose waits end with StageError when `keep_on` says no."""
        self._keep_on = keep_on
        try:
            yield
        finally:
            self._keep_on = None

    def _slices(self, deadline_s: float) -> Iterator[float]:
        """The moments up to which to wait, the last of them the deadline."""
        while self._keep_on is not None and (now := self._clock.now()) < deadline_s:
            if not self._keep_on():
                raise _ToldToStopError(f"{self._settings.port}: told to stop")
            yield min(now + _ASKED_EVERY_S, deadline_s)
        yield deadline_s

    def _wait_until(self, moment: float) -> None:
        for soon in self._slices(moment):
            self._clock.sleep_until(soon)

    def _read_line(self, deadline_s: float) -> bytes | None:
        if self._line is None:
            self._lose("the connection is closed")
        try:
            for soon in self._slices(deadline_s):
                if (line := self._line.read_line(soon)) is not None:
                    return line
        except LineLostError as error:
            self._lose_line(error)
        return None

    def _write(self, data: bytes, deadline_s: float = inf) -> None:
        if self._line is None:
            self._lose("the connection is closed")
        try:
            self._line.write(data, deadline_s)
        except LineLostError as error:
            self._lose_line(error)

    def _note_silence(self, asked_s: float) -> NoReturn:
        """Bear a board that does not answer for a moment, and no longer."""
        if self._silent_since_s is None:
            self._silent_since_s = asked_s
        silent = self._clock.now() - self._silent_since_s
        if silent >= _SILENCE_S:
            self._lose(f"the {self.BOARD} has not answered for {silent:.1f} s")
        raise StageError(f"{self._settings.port}: the {self.BOARD} does not answer")

    # -- Losing and refusing ------------------------------------------------------------------

    def _known(self, value: _Fact | None) -> _Fact:
        if value is None:
            raise StageError(f"{self._settings.port}: connect first; nothing is known of it yet")
        return value

    def _refuse_if_lost(self) -> None:
        if self._lost is not None:
            raise StageLostError(
                f"{self._settings.port}: {self._lost}; it must be recovered before it moves"
            )

    def _refuse_if_not_homed(self) -> None:
        if not self.is_homed:
            raise StageError("the stage is not homed: its position is not known")

    def _refuse_off_rail(self, position_mm: float) -> None:
        travel = self.description.travel_mm
        if not -_ROUNDING_MM <= position_mm <= travel + _ROUNDING_MM:  # nor does NaN pass
            raise StageError(f"{position_mm!r} mm is off the rail [0, {travel:g}]")

    def _refuse_if_moved_from(self, said_mm: float) -> None:
        """A move is measured from where the stage was last said to be: it must still be there."""
        if not self.description.is_near(self._reported_mm, said_mm):
            raise StageError(
                f"the stage is at {self._reported_mm:.4f} mm, and was last said to be at "
                f"{said_mm:.4f} mm: it has moved meanwhile, perhaps by another hand"
            )

    def _forget_position(self, why: str | None) -> None:
        self._lost = why
        self._homed_at_s = -inf
        self._reported_mm = nan
        self._silent_since_s = None
        self._still_at_s = -inf

    def _lose(self, why: str) -> NoReturn:
        self._forget_position(why)
        raise StageLostError(f"{self._settings.port}: {why}; its position is not known any more")

    def _lose_line(self, error: LineLostError) -> NoReturn:
        self._close_line()
        self._forget_position(str(error).removeprefix(f"{self._settings.port}: "))
        raise error

    def _give_up(self, why: str) -> NoReturn:
        self._given_up = why
        self._forget_position(why)
        raise StageBrokenError(why)

    def _close_line(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            line.close()
