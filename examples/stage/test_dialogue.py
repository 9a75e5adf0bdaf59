"""The protocol of README.md, byte by byte: the emulated board, or a real one at STEPPER_PORT.

The real one is homed and moved: clear its rail first.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest
import serial
from stepper_stage.emulator import VirtualStepper
from stepper_stage.protocol import Reply, parse, signed

from macontrol.controller.runtime.clock import WallClock

REAL_PORT = os.environ.get("STEPPER_PORT")
LIMIT_S = 30.0


class Board:
    """The board behind a port. Message numbers count up."""

    def __init__(self, port: serial.Serial) -> None:
        self.port, self.number = port, 0

    def read(self) -> Reply | None:
        """The next answer; a spoilt one fails."""
        line = self.port.readline()
        reply = parse(line.removesuffix(b"\n"))
        assert reply is not None or not line, line
        return reply

    def ask(self, command: str) -> Reply:
        self.number = self.number % 99 + 1
        self.port.write(signed(f"{self.number} {command}"))
        reply = self.read()
        assert reply is not None, f"no answer to {command}"
        assert reply.number == self.number
        return reply

    def answer(self, command: str) -> tuple[str, str]:
        reply = self.ask(command)
        return reply.result, reply.state

    def rest(self) -> Reply:
        """The status once the motor is at rest."""
        until = time.monotonic() + LIMIT_S
        while (reply := self.ask("status")).is_busy:
            assert time.monotonic() < until
        return reply

    def home(self) -> None:
        assert self.answer("home") == ("ok", "homing")
        reply = self.rest()
        assert (reply.state, reply.position) == ("idle", 0)


@pytest.fixture(scope="module")
def port() -> Iterator[str]:
    if REAL_PORT:
        yield REAL_PORT
        return
    with VirtualStepper(WallClock(), distance_mm=5.0) as emulator:
        yield emulator.port


@pytest.fixture
def board(port: str) -> Iterator[Board]:
    with serial.Serial(port, 115200, timeout=2.0) as connection:
        connection.readline()  # what a board sends when it starts, if opening restarts it
        connection.timeout = 15.0  # a busy computer delays the emulated board
        board = Board(connection)
        board.ask("stop")
        board.rest()
        yield board
    time.sleep(0.1)  # or the emulated board does not see that the port was closed


def test_the_facts_of_the_board(board: Board) -> None:
    reply = board.ask("info")
    assert reply.result == "ok"
    assert reply.facts[0] == "stepper-1"
    assert len(reply.facts) == 7
    assert all(int(fact) > 0 for fact in reply.facts[2:])


def test_it_moves_only_after_it_is_homed(board: Board) -> None:
    board.answer("home")
    board.ask("stop")
    assert board.rest().state == "unhomed"
    assert board.answer("move 100 1000") == ("unhomed", "unhomed")
    board.home()
    assert board.answer("move 100 1000") == ("ok", "moving")
    assert (board.rest().state, board.rest().position) == ("idle", 100)


def test_one_motion_at_a_time(board: Board) -> None:
    board.home()
    assert board.answer("move 800 4000") == ("ok", "moving")
    assert board.answer("move 0 4000") == ("busy", "moving")
    assert board.answer("home") == ("busy", "moving")
    assert board.rest().position == 800
    assert board.answer("home") == ("ok", "homing")
    assert board.answer("home") == ("busy", "homing")
    assert board.answer("move 0 4000") == ("busy", "homing")
    assert board.rest().position == 0


def test_the_limits_are_kept(board: Board) -> None:
    travel, speed = board.ask("info").facts[3:5]
    board.home()
    for target in (-1, int(travel) + 1, 99_999_999, -9_999_999):
        assert board.answer(f"move {target} 1000") == ("limit", "idle")
    for wrong in (0, -1, int(speed) + 1):
        assert board.answer(f"move 100 {wrong}") == ("limit", "idle")
    assert board.rest().position == 0
    assert board.answer(f"move {travel} {speed}") == ("ok", "moving")
    assert board.rest().position == int(travel)
    assert board.answer(f"move 0 {speed}") == ("ok", "moving")
    assert board.rest().position == 0


def test_a_move_to_the_present_position_ends(board: Board) -> None:
    board.home()
    assert board.answer("move 0 100") == ("ok", "moving")
    assert (board.rest().state, board.rest().position) == ("idle", 0)


def test_a_stop_brakes_and_keeps_the_position(board: Board) -> None:
    board.home()
    board.ask("move 4000 4000")
    while board.ask("status").position < 400:
        pass
    seen = board.ask("stop")
    assert seen.result == "ok"
    stopped = board.rest()
    assert stopped.state == "idle"
    # v²/2a is 50 steps on the board of the sketch; one of another rail brakes before its target.
    assert seen.position <= stopped.position < 4000
    assert board.answer("stop") == ("ok", "idle")
    assert board.ask("status").position == stopped.position


@pytest.mark.parametrize(
    "words", ["", "bla", "status 1", "move", "move 5", "move 5 6 7", "move x 5", "move 123456789 5"]
)
def test_an_unknown_command_is_refused(board: Board, words: str) -> None:
    if words:
        assert board.ask(words).result == "unknown"
    else:
        board.port.write(signed("7"))
        assert board.ask("status").result == "ok"


def test_a_spoilt_line_has_no_effect_and_no_answer(board: Board) -> None:
    board.home()
    line = signed("7 move 50 1000")[:-1]
    spoilt = [
        line[:place] + bytes([byte ^ 4]) + line[place + 1 :] for place, byte in enumerate(line)
    ]
    spoilt += [line[:place] + line[place + 1 :] for place in range(len(line))]
    spoilt += [line + line, line + b"\r", b"7" * 60 + line, b"\xff\x00" + line, line[:-5]]
    for each in spoilt:
        assert line not in (each, b""), each
        board.port.write(each + b"\n")
        time.sleep(0.003)  # a board has room for 64 bytes
    reply = board.ask("status")
    assert (reply.state, reply.position) == ("idle", 0)
