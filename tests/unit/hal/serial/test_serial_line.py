"""The serial transport, over a real pseudo-terminal."""

from __future__ import annotations

import errno
import fcntl
import os
import pty
import subprocess
import termios
import threading
import time
import tty
from collections.abc import Iterator
from itertools import pairwise
from math import inf
from pathlib import Path

import pytest
import serial

from macontrol.config.model.errors import LineBusyError, LineError, LineLostError, StageLostError
from macontrol.controller.runtime.clock import VirtualClock, WallClock
from macontrol.hal.serial.line import LONGEST_LINE, LineBuffer, SerialLine, open_with_back_off
from support.scripted_stage import fill

CLOCK = WallClock()


class Terminal:
    """The far end of a pseudo-terminal."""

    def __init__(self) -> None:
        self.master, slave = pty.openpty()
        tty.setraw(slave)
        self.port = os.ttyname(slave)
        self._slave = slave

    def unplug(self) -> None:
        if self.master >= 0:
            os.close(self._slave)
            os.close(self.master)
            self.master = -1


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    terminal = Terminal()
    yield terminal
    terminal.unplug()


@pytest.fixture
def line(terminal: Terminal) -> Iterator[SerialLine]:
    line = SerialLine(terminal.port, 115200, CLOCK)
    yield line
    line.close()


def soon(seconds: float = 10.0) -> float:
    return CLOCK.now() + seconds


def test_lines_come_without_their_ends(terminal: Terminal, line: SerialLine) -> None:
    os.write(terminal.master, b"ok\r\n\r\nGrbl 1.1h\r\nhalf")
    assert [line.read_line(soon()) for _ in range(3)] == [b"ok", b"", b"Grbl 1.1h"]
    assert line.read_line(soon(0.05)) is None
    os.write(terminal.master, b" a line\n")
    assert line.read_line(soon()) == b"half a line"


@pytest.mark.fault("real-time-bytes")
def test_bytes_are_sent_as_they_are(terminal: Terminal, line: SerialLine) -> None:
    line.write(b"\x18\x85\xff?\n")
    assert os.read(terminal.master, 100) == b"\x18\x85\xff?\n"


def test_a_deadline_holds_against_single_bytes_without_end(
    terminal: Terminal, line: SerialLine
) -> None:
    done = threading.Event()

    def drip() -> None:
        while not done.is_set():
            os.write(terminal.master, b"x")
            time.sleep(0.01)

    thread = threading.Thread(target=drip)
    thread.start()
    begun = CLOCK.now()
    try:
        assert line.read_line(begun + 0.3) is None
    finally:
        done.set()
        thread.join()
    assert 0.3 <= CLOCK.now() - begun < 5.0


def test_a_deadline_that_has_passed_still_gets_what_is_there(
    terminal: Terminal, line: SerialLine
) -> None:
    os.write(terminal.master, b"ok\n")
    deadline = soon()
    while (got := line.read_line(CLOCK.now() - 1.0)) is None and CLOCK.now() < deadline:
        pass
    assert got == b"ok"


@pytest.mark.fault("port-never-quiet")
@pytest.mark.parametrize("flood", [["cat", "/dev/zero"], ["yes", ""], ["yes", "[MSG:hello]"]])
def test_a_deadline_holds_against_a_board_that_never_stops_talking(
    terminal: Terminal, line: SerialLine, flood: list[str]
) -> None:
    begun = CLOCK.now()
    with subprocess.Popen(flood, stdout=terminal.master) as board:
        try:
            while line.read_line(begun + 0.2) is not None and CLOCK.now() - begun < 5.0:
                pass
        finally:
            board.kill()
    assert CLOCK.now() - begun < 4.0


@pytest.mark.fault("process-ends")
def test_the_last_words_before_a_port_is_closed_are_sent(terminal: Terminal) -> None:
    for _ in range(100):  # they might be lost by chance
        line = SerialLine(terminal.port, 115200, CLOCK)
        line.write(b"!\x18")
        line.close()
        assert os.read(terminal.master, 100) == b"!\x18"


def test_last_words_that_nobody_takes_are_not_waited_for(
    line: SerialLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    dropped: list[bool] = []
    monkeypatch.setattr(serial.Serial, "out_waiting", 2)
    monkeypatch.setattr(serial.Serial, "reset_output_buffer", lambda _: dropped.append(True))
    begun = CLOCK.now()
    line.close()
    assert dropped == [True]
    assert CLOCK.now() - begun < 2.0


def test_an_unplugged_port_is_lost_and_closed_at_once(terminal: Terminal, line: SerialLine) -> None:
    unplugging = threading.Timer(0.1, terminal.unplug)
    unplugging.start()
    with pytest.raises(LineLostError, match="gone"):
        line.read_line(soon())
    unplugging.join()
    assert not line.is_open
    with pytest.raises(StageLostError):
        line.write(b"?")
    with pytest.raises(StageLostError):
        line.read_line(soon())


@pytest.mark.fault("stage-unplugged")
def test_a_port_that_promises_data_and_has_none_is_unplugged(
    terminal: Terminal, line: SerialLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.write(terminal.master, b"ok\n")
    monkeypatch.setattr("serial.serialposix.os.read", lambda *_: b"")
    with pytest.raises(LineLostError, match="gone"):
        line.read_line(soon())
    assert not line.is_open


@pytest.mark.fault("port-vanishes-on-open")
def test_a_port_that_vanishes_while_it_is_opened_is_told(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def vanish(_: serial.Serial) -> None:
        raise termios.error(errno.EIO, "Input/output error")

    monkeypatch.setattr(serial.Serial, "_reset_input_buffer", vanish)
    with pytest.raises(LineError, match="cannot be opened"):
        SerialLine(terminal.port, 115200, CLOCK)


@pytest.mark.fault("port-in-use")
def test_a_port_belongs_to_one(terminal: Terminal, line: SerialLine) -> None:
    with pytest.raises(LineBusyError, match="in use by another program"):
        SerialLine(terminal.port, 115200, CLOCK)
    with pytest.raises(serial.SerialException):
        serial.Serial(terminal.port, exclusive=True)
    if os.geteuid() != 0:  # the kernel lets the superuser in
        with pytest.raises(OSError, match="busy"):
            os.open(terminal.port, os.O_RDWR | os.O_NOCTTY)
    line.close()
    SerialLine(terminal.port, 115200, CLOCK).close()


def is_exclusive(terminal: int) -> bool:
    """The TTY_EXCLUSIVE flag as TIOCGEXCL reports it, which the superuser sees too."""
    return any(fcntl.ioctl(terminal, 0x80045440, bytes(4)))


@pytest.mark.fault("virtual-port-exclusive-flag")
def test_a_pseudo_terminal_that_was_closed_can_be_opened_again_by_anyone(
    terminal: Terminal, line: SerialLine
) -> None:
    assert is_exclusive(terminal._slave)
    line.close()
    assert not is_exclusive(terminal._slave)


def test_so_can_one_that_was_lost(terminal: Terminal) -> None:
    line = SerialLine(terminal.port, 115200, CLOCK, write_timeout_s=0.0)
    fill(line._serial.fileno())
    with pytest.raises(LineLostError):
        line.write(b"?", -inf)
    assert not is_exclusive(terminal._slave)


def test_so_can_one_that_was_opened_in_vain(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: SerialLine) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(SerialLine, "_ask_for_low_latency", fail)
    with pytest.raises(KeyboardInterrupt):
        SerialLine(terminal.port, 115200, CLOCK)
    assert not is_exclusive(terminal._slave)


@pytest.mark.fault("port-missing-or-forbidden")
def test_a_port_that_is_not_there_is_told_with_where_to_look(tmp_path: Path) -> None:
    with pytest.raises(LineError, match=r"does not exist; give --port one of those"):
        SerialLine(str(tmp_path / "ttyUSB9"), 115200, CLOCK)


def test_what_is_no_port_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LineError, match=r"file is no serial port; give --port one of those"):
        SerialLine(str(tmp_path / "file"), 115200, CLOCK)
    with pytest.raises(LineError, match=r"/dev/null is no serial port"):
        SerialLine("/dev/null", 115200, CLOCK)


@pytest.mark.fault("port-blocked-at-start")
def test_a_write_that_is_not_taken_ends(terminal: Terminal) -> None:
    line = SerialLine(terminal.port, 115200, CLOCK, write_timeout_s=0.2)
    begun = CLOCK.now()

    def fill() -> None:
        while True:
            line.write(b"x" * 4096)

    with pytest.raises(LineLostError, match="does not take"):
        fill()
    assert CLOCK.now() - begun < 10.0
    assert not line.is_open


@pytest.mark.fault("port-blocked")
@pytest.mark.parametrize("within_s", [0.3, -1.0])
def test_a_write_that_is_not_taken_ends_with_its_deadline_and_a_moment_after_one_that_has_passed(
    terminal: Terminal, within_s: float
) -> None:
    line = SerialLine(terminal.port, 115200, CLOCK, write_timeout_s=30.0)
    fill(line._serial.fileno())
    begun = CLOCK.now()
    with pytest.raises(LineLostError, match="does not take"):
        line.write(b"?", begun + within_s)
    assert 0.04 <= CLOCK.now() - begun < 10.0
    assert not line.is_open


def test_a_write_that_is_taken_late_is_all_there(terminal: Terminal) -> None:
    line = SerialLine(terminal.port, 115200, CLOCK, write_timeout_s=30.0)
    words, heard = b"G1X-20.0000F6000.0\n" * 4096, bytearray()

    def listen() -> None:
        time.sleep(0.2)
        while len(heard) < len(words):
            heard.extend(os.read(terminal.master, 4096))

    board = threading.Thread(target=listen)
    board.start()
    line.write(words, soon(20.0))
    board.join()
    line.close()
    assert heard == words


@pytest.mark.fault("board-resets-on-open")
def test_control_lines_that_are_not_there_do_not_matter(terminal: Terminal) -> None:
    line = SerialLine(terminal.port, 115200, CLOCK, dtr="pulse", rts="clear")
    assert not line.low_latency  # nor is there anything to hurry on a pseudo-terminal
    line.close()
    line.close()


def test_the_traffic_is_logged_on_request(terminal: Terminal) -> None:
    heard: list[tuple[str, bytes]] = []
    line = SerialLine(terminal.port, 115200, CLOCK, log=lambda way, data: heard.append((way, data)))
    line.write(b"?")
    os.write(terminal.master, b"<Idle>\n")
    line.read_line(soon())
    line.close()
    assert heard[0] == (">", b"?")
    assert b"".join(data for way, data in heard if way == "<") == b"<Idle>\n"


@pytest.mark.fault("garbage-on-wire")
def test_a_line_without_end_is_dropped_not_kept() -> None:
    buffer = LineBuffer()
    buffer.feed(b"x" * (LONGEST_LINE + 1))
    buffer.feed(b"\nok\n")
    assert [buffer.take(), buffer.take(), buffer.take()] == [b"", b"ok", None]


def test_reopening_backs_off_until_it_works() -> None:
    clock, tries = VirtualClock(), []

    class Opened:
        def write(self, data: bytes, deadline_s: float = inf) -> None: ...
        def read_line(self, deadline_s: float) -> bytes | None: ...
        def close(self) -> None: ...

    def open_line() -> Opened:
        tries.append(clock.now())
        if clock.now() < 10.0:
            raise LineError("not yet")
        return Opened()

    open_with_back_off(open_line, clock, 60.0, clock.sleep_until)
    pauses = [b - a for a, b in pairwise(tries)]
    assert pauses == sorted(pauses)
    assert pauses[0] <= 0.1
    assert max(pauses) <= 2.0
    tries.clear()
    clock = VirtualClock()
    with pytest.raises(LineError, match="not yet"):
        open_with_back_off(open_line, clock, 5.0, clock.sleep_until)
    assert clock.now() <= 5.0
