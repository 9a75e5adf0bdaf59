"""Rigs for fault tests: an emulated board, a stage on it, and the true position of its carriage."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

import pytest

from macontrol.config.model.errors import StageLostError
from macontrol.controller.runtime.clock import WallClock
from macontrol.hal import Arrival
from macontrol.hal.serial.stage import SerialStage
from macontrol.hal.stages.grbl.driver import GrblStage
from macontrol.hal.stages.zaber.driver import ZaberStage
from macontrol.sim.bench.boards.grbl.board import VirtualGrbl
from macontrol.sim.bench.boards.zaber import VirtualZaber
from support.scripted_stage import stage_settings
from support.scripted_zaber import summed, zaber_settings
from support.waiting import wait_until

CLOCK = WallClock()

_Board = TypeVar("_Board", bound=VirtualGrbl | VirtualZaber)
_Stage = TypeVar("_Stage", bound=SerialStage)


def soon(seconds: float = 30.0) -> float:
    return CLOCK.now() + seconds


def rest_mm(board: VirtualGrbl | VirtualZaber, within_s: float = 3.0) -> float:
    """The position (mm) at which the carriage comes to rest; it must do so soon."""
    until = soon(within_s)
    before, here = nan, board.position_at(CLOCK.now())
    while before != here:
        assert CLOCK.now() < until, "the carriage still moves"
        CLOCK.sleep_until(CLOCK.now() + 0.2)
        before, here = here, board.position_at(CLOCK.now())
    return here


def occupy(terminal: str, closing: ExitStack) -> None:
    """Occupy the name of a pseudo-terminal that is gone.

    The kernel assigns the lowest free number first, and other programs may have freed some.
    """
    taken = -1
    while taken < int(Path(terminal).name):
        ends = os.openpty()
        taken = int(Path(os.ttyname(ends[1])).name)
        for end in ends:
            closing.callback(os.close, end)


@dataclass
class Rig(Generic[_Board, _Stage]):
    board: _Board
    stage: _Stage
    tolerance_mm: float
    motions: tuple[str, ...]
    """Substrings of the commands that move the carriage."""
    reset_reason: str
    garbage: tuple[bytes, ...]
    """Bytes that must change nothing."""
    motion_method: str
    """The method of the emulated board that starts a motion …"""
    homing_method: str
    """… and the one that starts a homing."""

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        timer = threading.Timer(seconds, action)
        timer.daemon = True
        timer.start()

    def during_next_motion(self, action: Callable[[], None]) -> None:
        """Run an action during the next move of the board."""
        self._during(self.motion_method, action)

    def during_next_homing(self, action: Callable[[], None]) -> None:
        """Run an action during the next homing of the board, before it reaches its switch."""
        self._during(self.homing_method, action)

    def _during(self, method: str, action: Callable[[], None]) -> None:
        """The board itself triggers it, so it is never too late on a busy machine."""
        board = self.board
        begin = getattr(board, method)

        def cause() -> None:
            CLOCK.sleep_until(CLOCK.now() + 0.05)
            board._wire._send_what_is_due()
            threading.Thread(target=action, daemon=True).start()
            wait_until(lambda: bool(board._requests))  # the board does it before anything else

        def begin_and_strike(*words: Any, **options: Any) -> Any:
            setattr(board, method, begin)
            board._requests.append((cause, threading.Event()))
            board._wire.wake()
            return begin(*words, **options)

        setattr(board, method, begin_and_strike)

    def move_by_hand(self, to_mm: float) -> None:
        """Move the carriage past the driver, and wait until it is at rest."""
        if isinstance(self.board, VirtualZaber):
            self.board.interrupt(round(to_mm * 1000))
        else:
            self.board.jog(to_mm)
        wait_until(lambda: abs(self.true_mm() - to_mm) <= self.tolerance_mm)
        CLOCK.sleep_until(CLOCK.now() + 0.1)

    @contextmanager
    def not_reading(self) -> Iterator[None]:
        """A time in which the board reads nothing from the wire."""
        started, over = threading.Event(), threading.Event()

        def block() -> None:
            started.set()
            over.wait()

        self.board._requests.append((block, threading.Event()))
        self.board._wire.wake()
        assert started.wait(30.0)
        try:
            yield
        finally:
            over.set()

    def true_mm(self) -> float:
        return self.board.position_at(CLOCK.now())

    def assert_works(self) -> None:
        assert self.stage.is_homed
        arrival = self.stage.move_to(12.0, soon())
        assert arrival.arrived
        assert arrival.position_mm == pytest.approx(12.0)
        assert self.true_mm() == pytest.approx(12.0, abs=self.tolerance_mm)

    def assert_refuses_to_move(self) -> None:
        before = self._moved()
        with pytest.raises(StageLostError):
            self.stage.move_to(20.0, soon())
        assert self._moved() == before

    def _moved(self) -> int:
        return sum(any(word in line for word in self.motions) for line in self.board.lines)

    def follow(self) -> Arrival:
        """Ask until it is at rest, or fails."""
        deadline = soon()
        while CLOCK.now() < deadline:
            arrival = self.stage.where(soon(5.0))
            if arrival.arrived:
                return arrival
            CLOCK.sleep_until(CLOCK.now() + 0.02)
        raise AssertionError("neither arrived nor failed")


GrblRig: TypeAlias = Rig[VirtualGrbl, GrblStage]
ZaberRig: TypeAlias = Rig[VirtualZaber, ZaberStage]
AnyRig: TypeAlias = GrblRig | ZaberRig


@contextmanager
def grbl_rig(link: Path, *, homing_mm_per_s: float = 100.0) -> Iterator[GrblRig]:
    """A short rail with a quick homing, for many faults in little time."""
    quick = {130: 60.0, 25: 60 * homing_mm_per_s, 24: 3000.0, 26: 5.0, 27: 1.0}
    board = VirtualGrbl(CLOCK, settings=quick, link=link, distance_mm=3.0)
    rig = Rig(
        board,
        GrblStage(stage_settings(str(link)), CLOCK),
        tolerance_mm=0.03,
        motions=("G1", "$H"),
        reset_reason="was reset during the run",
        garbage=(b"\xff\x00\x80", b"\r\n\r\n", b"<Idle|MPos:", b"o", b"$100=1\n"),
        motion_method="_go",
        homing_method="_seek_switch",
    )
    with _homed(rig):
        yield rig


@contextmanager
def zaber_rig(link: Path, *, homing_mm_per_s: float = 128.0) -> Iterator[ZaberRig]:
    """A rail of 60 mm at 1 µm, as fast as the GRBL rig."""
    quick = {"limit.max": 60_000.0, "maxspeed": 163_840.0, "accel": 82.0, "comm.alert": 1.0}
    quick["limit.approach.maxspeed"] = homing_mm_per_s * 1638.4
    board = VirtualZaber(CLOCK, settings=quick, microstep_mm=0.001, link=link, distance_mm=3.0)
    rig = Rig(
        board,
        ZaberStage(zaber_settings(str(link)), CLOCK),
        tolerance_mm=0.002,
        motions=("move", "home"),
        reset_reason="no reference position",
        garbage=(
            b"\xff\x00\x80",
            b"\r\n\r\n",
            b"@01 1 ",
            b"@01 1 07 OK IDLE -- 5\r\n",  # without its checksum
            summed("@02 1 07 OK IDLE FS 5") + b"\r\n",  # another device's
            b"!01 1 IDLE FS:00\r\n",
        ),
        motion_method="_execute_move",
        homing_method="_home",
    )
    with _homed(rig):
        yield rig


@contextmanager
def _homed(rig: AnyRig) -> Iterator[None]:
    with rig.board:
        try:
            rig.stage.connect(soon())
            rig.stage.home(soon())
            assert rig.true_mm() == pytest.approx(0.0, abs=rig.tolerance_mm)
            yield
        finally:
            rig.stage.close()
