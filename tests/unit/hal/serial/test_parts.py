"""The parts of a serial stage: position, connection, and a binary framing."""

from __future__ import annotations

import contextlib
import os
import tty
from collections.abc import Iterator
from itertools import pairwise
from math import inf, isnan, nan

import pytest

from macontrol.config.model.errors import (
    LineError,
    LineLostError,
    StageBrokenError,
    StageError,
    StageLostError,
    StopRequestedError,
)
from macontrol.controller.runtime.clock import VirtualClock, WallClock
from macontrol.hal import StageDescription
from macontrol.hal.serial.connection import Connection
from macontrol.hal.serial.line import SerialLine
from macontrol.hal.serial.position import Position

DESCRIPTION = StageDescription(
    name="/dev/ttyTEST",
    travel_mm=100.0,
    step_mm=0.01,
    speed_mm_per_s=100.0,
    acceleration_mm_per_s2=inf,
    latency_s=0.01,
    settling_s=0.0,
    tolerance_mm=0.002,
)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(50.0)


@pytest.fixture
def position(clock: VirtualClock) -> Position:
    """A homed stage."""
    position = Position("/dev/ttyTEST", clock, "board")
    position.description = DESCRIPTION
    position.restore(homed_at_s=clock.now())
    position.reported_mm = 5.0
    return position


class FakeLine:
    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.is_open = True
        self.is_unplugged = False

    def write(self, data: bytes, deadline_s: float = inf) -> None:
        if self.is_unplugged:
            raise LineLostError("/dev/ttyTEST: the port is gone", "check its cable")

    def read_message(self, deadline_s: float) -> bytes | None:
        self.write(b"")
        self._clock.sleep_until(deadline_s)
        return None

    def close(self) -> None:
        self.is_open = False


class TestPosition:
    def test_a_new_stage_is_lost(self, clock: VirtualClock) -> None:
        position = Position("/dev/ttyTEST", clock, "board")
        assert position.is_lost
        assert not position.is_homed
        with pytest.raises(StageLostError):
            position.require_not_lost()

    def test_a_lost_stage_forgets_everything_about_its_position(self, position: Position) -> None:
        position.still_at_s = inf
        with pytest.raises(StageLostError) as error:
            position.lose("it was reset", "home it")
        assert error.value.fix == "home it"
        assert position.is_lost
        assert not position.is_homed
        assert isnan(position.reported_mm)
        assert position.still_at_s == -inf
        with pytest.raises(StageLostError, match="/dev/ttyTEST: it was reset"):
            position.require_not_lost()

    def test_a_broken_stage_stays_broken(self, position: Position) -> None:
        with pytest.raises(StageBrokenError):
            position.give_up("another board", "start again")
        position.restore()
        with pytest.raises(StageBrokenError) as error:
            position.require_not_broken()
        assert (error.value.detail, error.value.fix) == ("another board", "start again")

    @pytest.mark.parametrize("position_mm", [0.0, 100.0, -1e-7, 100.0000001])
    def test_a_rounding_error_beyond_the_rail_passes(
        self, position: Position, position_mm: float
    ) -> None:
        position.require_on_rail(position_mm)

    @pytest.mark.parametrize("position_mm", [-1e-3, 100.001, nan, inf, -inf])
    def test_a_position_off_the_rail_does_not(self, position: Position, position_mm: float) -> None:
        with pytest.raises(StageError):
            position.require_on_rail(position_mm)

    def test_a_stage_that_has_moved_is_noticed(self, position: Position) -> None:
        position.require_unmoved(5.011)
        with pytest.raises(StageError):
            position.require_unmoved(5.013)

    def test_silence_is_tolerated_for_a_second(
        self, position: Position, clock: VirtualClock
    ) -> None:
        asked = clock.now()
        clock.sleep_until(asked + 0.9)
        with pytest.raises(StageError):
            position.note_silence(asked)
        assert position.is_homed
        position.note_answer()
        clock.sleep_until(asked + 2.0)
        with pytest.raises(StageError):
            position.note_silence(asked + 1.5)
        assert position.is_homed
        clock.sleep_until(asked + 2.6)
        with pytest.raises(StageLostError):
            position.note_silence(asked + 2.5)

    def test_loss_is_expected_only_during_a_handshake(self, position: Position) -> None:
        with contextlib.suppress(StageError), position.handshake("it is being stopped"):
            assert position.loss_is_expected
            assert not position.is_homed
            raise StageError("it failed")
        assert not position.loss_is_expected
        with pytest.raises(StageLostError, match="being stopped"):
            position.require_not_lost()


class TestTolerance:
    def test_a_fault_is_tolerated_once_in_ten_minutes(
        self, position: Position, clock: VirtualClock
    ) -> None:
        for wait_s in (0.0, 601.0, 599.0):
            clock.sleep_until(clock.now() + wait_s)
            position.note_fault("a stall", "check the rail")
            if wait_s != 599.0:
                position.tolerate_fault()
        with pytest.raises(StageBrokenError) as error:
            position.tolerate_fault()
        assert error.value.fix == "check the rail"

    def test_without_a_fault_nothing_is_used_up(self, position: Position) -> None:
        position.tolerate_fault()
        position.note_fault("a stall", "check the rail")
        position.tolerate_fault()
        position.tolerate_fault()
        position.require_not_broken()


class TestConnection:
    def test_a_lost_line_is_closed_and_loses_the_position(
        self, position: Position, clock: VirtualClock
    ) -> None:
        line = FakeLine(clock)
        connection = Connection("/dev/ttyTEST", clock, position, lambda: line)
        connection.open()
        line.is_unplugged = True
        with pytest.raises(LineLostError):
            connection.write(b"?")
        assert not line.is_open
        assert not connection.is_open
        with pytest.raises(StageLostError, match=r"^/dev/ttyTEST: the port is gone; it must be"):
            position.require_not_lost()

    def test_a_closed_connection_loses_the_position(
        self, position: Position, clock: VirtualClock
    ) -> None:
        connection = Connection("/dev/ttyTEST", clock, position, lambda: FakeLine(clock))
        with pytest.raises(StageLostError):
            connection.read_message(clock.now() + 1.0)
        assert position.is_lost

    def test_a_wait_ends_within_a_tenth_of_a_second_of_a_stop_request(
        self, position: Position, clock: VirtualClock
    ) -> None:
        connection = Connection("/dev/ttyTEST", clock, position, lambda: FakeLine(clock))
        connection.open()
        stop_at_s = clock.now() + 3.0
        with (
            pytest.raises(StopRequestedError),
            connection.interruptible(lambda: clock.now() < stop_at_s),
        ):
            connection.read_message(clock.now() + 60.0)
        assert clock.now() <= stop_at_s + 0.1 + 1e-9
        begin_s = clock.now()
        assert connection.read_message(begin_s + 1.0) is None  # not interruptible any more
        assert clock.now() == pytest.approx(begin_s + 1.0)

    def test_reopening_waits_longer_after_each_attempt(
        self, position: Position, clock: VirtualClock
    ) -> None:
        attempts: list[float] = []

        def refuse() -> FakeLine:
            attempts.append(clock.now())
            raise LineError("/dev/ttyTEST does not exist")

        connection = Connection("/dev/ttyTEST", clock, position, refuse)
        with pytest.raises(LineError):
            connection.reopen(clock.now() + 2.0)
        pauses = [later - earlier for earlier, later in pairwise(attempts)]
        assert pauses == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8])

    def test_reopening_tries_at_least_every_two_seconds_until_it_succeeds(
        self, position: Position, clock: VirtualClock
    ) -> None:
        attempts: list[float] = []
        back_at_s = clock.now() + 10.0

        def open_line() -> FakeLine:
            attempts.append(clock.now())
            if clock.now() < back_at_s:
                raise LineError("/dev/ttyTEST does not exist")
            return FakeLine(clock)

        connection = Connection("/dev/ttyTEST", clock, position, open_line)
        connection.reopen(clock.now() + 60.0)
        assert connection.is_open
        pauses = [later - earlier for earlier, later in pairwise(attempts)]
        assert pauses == sorted(pauses)
        assert max(pauses) <= 2.0 + 1e-9


class LengthPrefixed:
    """A binary framing: one byte of length, then the message."""

    def __init__(self) -> None:
        self._data = b""

    def feed(self, data: bytes) -> None:
        self._data += data

    def take(self) -> bytes | None:
        if not self._data or len(self._data) <= self._data[0]:
            return None
        end = 1 + self._data[0]
        message, self._data = self._data[1:end], self._data[end:]
        return message


@pytest.fixture
def terminal() -> Iterator[tuple[int, str]]:
    master, slave = os.openpty()
    tty.setraw(slave)
    try:
        yield master, os.ttyname(slave)
    finally:
        os.close(slave)
        os.close(master)


def test_a_binary_protocol_has_its_own_framing(terminal: tuple[int, str]) -> None:
    master, port = terminal
    clock = WallClock()
    line = SerialLine(port, 115200, clock, framing=LengthPrefixed())
    try:
        os.write(master, b"\x03\n\x00\xff\x01\r\x02a")
        assert line.read_message(clock.now() + 5.0) == b"\n\x00\xff"
        assert line.read_message(clock.now() + 5.0) == b"\r"
        assert line.read_message(clock.now() + 0.05) is None
        os.write(master, b"b")
        assert line.read_message(clock.now() + 5.0) == b"ab"
    finally:
        line.close()
