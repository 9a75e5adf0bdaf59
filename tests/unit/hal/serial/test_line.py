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
from math import inf
from pathlib import Path

import pytest
import serial

from macontrol.config.model.errors import LineBusyError, LineError, LineLostError, StageLostError
from macontrol.controller.runtime.clock import WallClock
from macontrol.hal.serial.framing import LONGEST_LINE, LineBuffer
from macontrol.hal.serial.line import SerialLine
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


def test_lines_are_returned_without_line_ends(terminal: Terminal, line: SerialLine) -> None:
    os.write(terminal.master, b"ok\r\n\r\nGrbl 1.1h\r\nhalf")
    assert [line.read_message(soon()) for _ in range(3)] == [b"ok", b"", b"Grbl 1.1h"]
    assert line.read_message(soon(0.05)) is None
    os.write(terminal.master, b" a line\n")
    assert line.read_message(soon()) == b"half a line"


@pytest.mark.fault("real-time-bytes")
def test_bytes_are_sent_unchanged(terminal: Terminal, line: SerialLine) -> None:
    line.write(b"\x18\x85\xff?\n")
    assert os.read(terminal.master, 100) == b"\x18\x85\xff?\n"


def test_endless_single_bytes_do_not_pass_a_deadline(terminal: Terminal, line: SerialLine) -> None:
    done = threading.Event()

    def send_slowly() -> None:
        while not done.is_set():
            os.write(terminal.master, b"x")
            time.sleep(0.01)

    thread = threading.Thread(target=send_slowly)
    thread.start()
    start = CLOCK.now()
    try:
        assert line.read_message(start + 0.3) is None
    finally:
        done.set()
        thread.join()
    assert 0.3 <= CLOCK.now() - start < 5.0


def test_a_passed_deadline_still_returns_data_that_is_there(
    terminal: Terminal, line: SerialLine
) -> None:
    os.write(terminal.master, b"ok\n")
    deadline = soon()
    while (got := line.read_message(CLOCK.now() - 1.0)) is None and CLOCK.now() < deadline:
        pass
    assert got == b"ok"


@pytest.mark.fault("port-never-quiet")
@pytest.mark.parametrize("flood", [["cat", "/dev/zero"], ["yes", ""], ["yes", "[MSG:hello]"]])
def test_endless_lines_do_not_pass_a_deadline(
    terminal: Terminal, line: SerialLine, flood: list[str]
) -> None:
    start = CLOCK.now()
    with subprocess.Popen(flood, stdout=terminal.master) as board:
        try:
            while line.read_message(start + 0.2) is not None and CLOCK.now() - start < 5.0:
                pass
        finally:
            board.kill()
    assert CLOCK.now() - start < 4.0


@pytest.mark.fault("process-ends")
def test_the_last_bytes_are_sent_before_closing(terminal: Terminal) -> None:
    for _ in range(100):  # a loss may be random
        line = SerialLine(terminal.port, 115200, CLOCK)
        line.write(b"!\x18")
        line.close()
        assert os.read(terminal.master, 100) == b"!\x18"


def test_closing_does_not_wait_for_bytes_that_are_not_accepted(
    line: SerialLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    dropped: list[bool] = []
    monkeypatch.setattr(serial.Serial, "out_waiting", 2)
    monkeypatch.setattr(serial.Serial, "reset_output_buffer", lambda _: dropped.append(True))
    start = CLOCK.now()
    line.close()
    assert dropped == [True]
    assert CLOCK.now() - start < 2.0


def test_an_unplugged_port_is_lost_and_closed_immediately(
    terminal: Terminal, line: SerialLine
) -> None:
    unplugging = threading.Timer(0.1, terminal.unplug)
    unplugging.start()
    with pytest.raises(LineLostError):
        line.read_message(soon())
    unplugging.join()
    assert not line.is_open
    with pytest.raises(StageLostError):
        line.write(b"?")
    with pytest.raises(StageLostError):
        line.read_message(soon())


@pytest.mark.fault("stage-unplugged")
def test_a_readable_port_without_data_is_unplugged(
    terminal: Terminal, line: SerialLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.write(terminal.master, b"ok\n")
    monkeypatch.setattr("serial.serialposix.os.read", lambda *_: b"")
    with pytest.raises(LineLostError):
        line.read_message(soon())
    assert not line.is_open


@pytest.mark.fault("port-vanishes-on-open")
def test_a_port_that_vanishes_while_opening_is_an_error(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def vanish(_: serial.Serial) -> None:
        raise termios.error(errno.EIO, "Input/output error")

    monkeypatch.setattr(serial.Serial, "_reset_input_buffer", vanish)
    with pytest.raises(LineError, match="cannot be opened"):
        SerialLine(terminal.port, 115200, CLOCK)


@pytest.mark.fault("port-in-use")
def test_a_port_has_one_owner(terminal: Terminal, line: SerialLine) -> None:
    with pytest.raises(LineBusyError):
        SerialLine(terminal.port, 115200, CLOCK)
    with pytest.raises(serial.SerialException):
        serial.Serial(terminal.port, exclusive=True)
    if os.geteuid() != 0:  # the superuser may open it
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


def test_a_lost_pseudo_terminal_can_be_opened_again(terminal: Terminal) -> None:
    line = SerialLine(terminal.port, 115200, CLOCK, write_timeout_s=0.0)
    fill(line._serial.fileno())
    with pytest.raises(LineLostError):
        line.write(b"?", -inf)
    assert not is_exclusive(terminal._slave)


def test_a_pseudo_terminal_that_failed_to_open_can_be_opened_again(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: SerialLine) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(SerialLine, "_request_low_latency", fail)
    with pytest.raises(KeyboardInterrupt):
        SerialLine(terminal.port, 115200, CLOCK)
    assert not is_exclusive(terminal._slave)


@pytest.mark.fault("port-missing-or-forbidden")
def test_a_missing_port_is_an_error_with_a_fix(tmp_path: Path) -> None:
    with pytest.raises(LineError, match=r"does not exist; give --port one of those"):
        SerialLine(str(tmp_path / "ttyUSB9"), 115200, CLOCK)


def test_a_path_that_is_not_a_port_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LineError, match=r"file is not a serial port; give --port one of those"):
        SerialLine(str(tmp_path / "file"), 115200, CLOCK)
    with pytest.raises(LineError, match=r"/dev/null is not a serial port"):
        SerialLine("/dev/null", 115200, CLOCK)


@pytest.mark.fault("port-blocked-at-start")
def test_a_write_that_is_not_accepted_ends(terminal: Terminal) -> None:
    line = SerialLine(terminal.port, 115200, CLOCK, write_timeout_s=0.2)
    start = CLOCK.now()

    def fill() -> None:
        while True:
            line.write(b"x" * 4096)

    with pytest.raises(LineLostError):
        fill()
    assert CLOCK.now() - start < 10.0
    assert not line.is_open


@pytest.mark.fault("port-blocked")
@pytest.mark.parametrize("within_s", [0.3, -1.0])
def test_a_write_that_is_not_accepted_ends_at_its_deadline(
    terminal: Terminal, within_s: float
) -> None:
    line = SerialLine(terminal.port, 115200, CLOCK, write_timeout_s=30.0)
    fill(line._serial.fileno())
    start = CLOCK.now()
    with pytest.raises(LineLostError):
        line.write(b"?", start + within_s)
    assert 0.04 <= CLOCK.now() - start < 10.0
    assert not line.is_open


def test_a_write_that_is_accepted_late_is_complete(terminal: Terminal) -> None:
    line = SerialLine(terminal.port, 115200, CLOCK, write_timeout_s=30.0)
    words, received = b"G1X-20.0000F6000.0\n" * 4096, bytearray()

    def listen() -> None:
        time.sleep(0.2)
        while len(received) < len(words):
            received.extend(os.read(terminal.master, 4096))

    board = threading.Thread(target=listen)
    board.start()
    line.write(words, soon(20.0))
    board.join()
    line.close()
    assert received == words


@pytest.mark.fault("board-resets-on-open")
def test_missing_control_lines_are_ignored(terminal: Terminal) -> None:
    line = SerialLine(terminal.port, 115200, CLOCK, dtr="pulse", rts="clear")
    line.close()
    line.close()


def test_the_traffic_is_logged_on_request(terminal: Terminal) -> None:
    received: list[tuple[str, bytes]] = []
    line = SerialLine(
        terminal.port, 115200, CLOCK, log=lambda way, data: received.append((way, data))
    )
    line.write(b"?")
    os.write(terminal.master, b"<Idle>\n")
    line.read_message(soon())
    line.close()
    assert received[0] == (">", b"?")
    assert b"".join(data for way, data in received if way == "<") == b"<Idle>\n"


@pytest.mark.fault("garbage-on-wire")
def test_a_line_without_end_is_dropped() -> None:
    buffer = LineBuffer()
    buffer.feed(b"x" * (LONGEST_LINE + 1))
    buffer.feed(b"\nok\n")
    assert [buffer.take(), buffer.take(), buffer.take()] == [b"", b"ok", None]
