"""What is known about the position of a serial stage.

The position is known only between a homing and the first sign that the carriage may be elsewhere.
After such a sign the stage is lost: it is recovered and homed before it moves again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf, isfinite, nan
from typing import NoReturn, TypeVar

from macontrol.config.model.errors import (
    NoAnswerError,
    NotHomedError,
    OffRailError,
    StageBrokenError,
    StageError,
    StageLostError,
)
from macontrol.hal.clock import Clock
from macontrol.hal.serial.rail import Coordinates
from macontrol.hal.stage import Arrival, StageDescription

# A command may exceed the rail by this rounding error; it is then limited to the end of the rail.
_ROUNDING_MM = 1e-6
SILENCE_S = 1.0
"""A board that has not answered for this time is lost."""
# A fault that may be chance, such as noise on the wire of a limit switch, is tolerated once in this
# time; the next one needs a person.
_TOLERANCE_S = 600.0

_Fact = TypeVar("_Fact")


class Position:
    """The position of one stage, and the checks that a command has to pass."""

    def __init__(self, port: str, clock: Clock, board: str) -> None:
        self._port = port
        self._clock = clock
        self._board = board
        """What its maker calls the hardware: "board" or "device"."""
        self._lost: str | None = f"{port}: it is not connected"
        self._broken: StageBrokenError | None = None
        self._description: StageDescription | None = None
        self._coordinates: Coordinates | None = None
        self._silent_since_s: float | None = None
        self._fault: tuple[str, str] | None = None
        self._tolerated_at_s = -inf
        self.homed_at_s = -inf
        self.reported_mm = nan
        self.still_at_s = -inf
        """When the antenna comes to rest; infinite while it moves."""
        self.loss_is_expected = False
        """During a handshake a board reports that its position is void; that is no fault."""

    @property
    def is_lost(self) -> bool:
        return self._lost is not None

    @property
    def is_homed(self) -> bool:
        return self._lost is None and isfinite(self.homed_at_s)

    @property
    def description(self) -> StageDescription:
        """What the stage is and can do; known once it is connected."""
        return self.known(self._description)

    @description.setter
    def description(self, description: StageDescription) -> None:
        self._description = description

    @property
    def coordinates(self) -> Coordinates:
        """The coordinates of the last homing."""
        return self.known(self._coordinates)

    def begin_at(self, coordinates: Coordinates, board: float) -> None:
        """Start at rest after a homing, at a position of the board."""
        self._coordinates = coordinates
        self.reported_mm = coordinates.to_rail(board)

    # -- Checks before a command --------------------------------------------------------------

    def known(self, fact: _Fact | None) -> _Fact:
        """Return a fact that is read from the board, or raise StageError if it is not read yet."""
        if fact is None:
            raise StageError(f"{self._port}: nothing is known about the stage yet", "connect first")
        return fact

    def require_not_broken(self) -> None:
        if self._broken is not None:
            raise StageBrokenError(self._broken.detail, self._broken.fix)

    def require_not_lost(self) -> None:
        if self._lost is not None:
            raise StageLostError(self._lost, "it must be recovered before it moves")

    def require_homed(self) -> None:
        if not self.is_homed:
            raise NotHomedError("the stage is not homed: its position is unknown")

    def require_on_rail(self, position_mm: float) -> None:
        travel = self.description.travel_mm
        if not -_ROUNDING_MM <= position_mm <= travel + _ROUNDING_MM:  # NaN does not pass
            raise OffRailError(f"{position_mm!r} mm is off the rail [0, {travel:g}]")

    def require_unmoved(self, previous_mm: float) -> None:
        """Raise StageError if the stage is not where its previous report was.

        The controller plans a move from the previous report.
        """
        if not self.description.is_near(self.reported_mm, previous_mm):
            raise StageError(
                f"the stage is at {self.reported_mm:.4f} mm, and the previous report was "
                f"{previous_mm:.4f} mm: moved by a pendant or another program?"
            )

    # -- Signs that the position is unknown ---------------------------------------------------

    def forget(self, reason: str) -> None:
        """Mark the stage as lost. `reason` starts with the port."""
        self._clear()
        self._lost = reason

    def begin_homing(self) -> None:
        """Mark a stage that is not lost as not homed."""
        self._clear()
        self._lost = None

    def restore(self, homed_at_s: float = -inf) -> None:
        """End a handshake: the stage is not lost, and homed if a time of homing is given."""
        self._lost = None
        self.homed_at_s = homed_at_s

    def _clear(self) -> None:
        self.homed_at_s = -inf
        self.reported_mm = nan
        self._silent_since_s = None
        self.still_at_s = -inf

    def lose(self, reason: str, fix: str = "") -> NoReturn:
        """Mark the stage as lost and raise StageLostError."""
        detail = f"{self._port}: {reason}"
        self.forget(detail)
        raise StageLostError(f"{detail}: its position is unknown", fix)

    def fail_homing(self) -> None:
        """Mark the stage as lost, unless a more exact reason is known."""
        self._lost = self._lost or f"{self._port}: homing failed"

    def give_up(self, detail: str, fix: str) -> NoReturn:
        """Raise StageBrokenError now and in every later recovery."""
        self._broken = StageBrokenError(detail, fix)
        self.forget(f"{self._port}: {detail}")
        raise StageBrokenError(detail, fix)

    def note_fault(self, detail: str, fix: str) -> None:
        """Note a fault that may be chance; `fix` says what to do if it occurs again."""
        self._fault = detail, fix

    def tolerate_fault(self) -> None:
        """Tolerate the noted fault, or raise StageBrokenError if it is the second one."""
        fault, self._fault = self._fault, None
        if fault is None:
            return
        now = self._clock.now()
        if now - self._tolerated_at_s < _TOLERANCE_S:
            self.give_up(f"{fault[0]} (for the second time)", fault[1])
        self._tolerated_at_s = now

    @contextmanager
    def expecting_loss(self) -> Iterator[None]:
        """A time in which signs that the position is unknown are expected."""
        self.loss_is_expected = True
        try:
            yield
        finally:
            self.loss_is_expected = False

    @contextmanager
    def handshake(self, reason: str) -> Iterator[None]:
        """A time in which the position is unknown, with `reason` if it is not known better."""
        self.forget(self._lost or f"{self._port}: {reason}")
        with self.expecting_loss():
            yield

    # -- Arrival ------------------------------------------------------------------------------

    def begin_settling(self) -> None:
        """The last step is over; the antenna is at rest soon."""
        self.still_at_s = self._clock.now() + self.description.settling_s

    def await_settled(self, deadline_s: float) -> Arrival:
        """Wait until the antenna is at rest, or the deadline."""
        self._clock.sleep_until(min(self.still_at_s, deadline_s))
        now = self._clock.now()
        return Arrival(self.reported_mm, self.still_at_s <= now, min(self.still_at_s, now))

    # -- Silence ------------------------------------------------------------------------------

    def note_answer(self) -> None:
        """The board answered, possibly late."""
        self._silent_since_s = None

    def note_silence(self, asked_s: float) -> NoReturn:
        """Raise StageError; after one second without any answer the stage is lost."""
        if self._silent_since_s is None:
            self._silent_since_s = asked_s
        silent = self._clock.now() - self._silent_since_s
        if silent >= SILENCE_S:
            self.lose(f"the {self._board} has not answered for {silent:.1f} s")
        raise NoAnswerError(f"{self._port}: the {self._board} does not answer")
