"""What goes over the line is kept in a file, and costs whoever talks next to nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from macontrol.config.errors import InputOutputError
from macontrol.controller.clock import VirtualClock
from macontrol.hal.traffic_log import TrafficFile


def test_each_piece_is_a_line_with_its_moment_direction_and_bytes(tmp_path: Path) -> None:
    clock, path = VirtualClock(100.0), tmp_path / "traffic.log"
    with TrafficFile(path, clock) as log:
        log(">", b"$H\n")
        clock.sleep_until(102.5)
        log("<", b"ok\r\n\x85\xff\\")
    assert path.read_text().splitlines() == [
        r"    0.000000 > $H\n",
        r"    2.500000 < ok\r\n\x85\xff\\",
    ]


def test_what_was_said_can_be_read_while_the_line_is_open(tmp_path: Path) -> None:
    path = tmp_path / "traffic.log"
    with TrafficFile(path, VirtualClock()) as log:
        log(">", b"?")
        while "?" not in path.read_text():
            pass


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "traffic.log"
    with pytest.raises(InputOutputError, match="nowhere"), TrafficFile(path, VirtualClock()):
        pass


def test_a_full_disk_ends_the_log_and_nothing_else() -> None:
    with TrafficFile(Path("/dev/full"), VirtualClock()) as log:
        for _ in range(1000):
            log("<", b"ok\r\n")


def test_after_it_has_ended_nothing_piles_up() -> None:
    with TrafficFile(Path("/dev/full"), VirtualClock()) as log:
        log("<", b"ok\r\n")
        log._writer.join(10.0)
        assert not log._writer.is_alive()
        for _ in range(1000):
            log("<", b"ok\r\n")
        assert log._queue.qsize() == 0


def test_an_earlier_log_is_written_over_and_nothing_else_is(tmp_path: Path) -> None:
    path = tmp_path / "traffic.log"
    for byte in (b"1", b"2"):
        with TrafficFile(path, VirtualClock()) as log:
            log("<", byte)
    assert path.read_text() == "    0.000000 < 2\n"
    path.write_bytes(b"SQLite format 3\0")
    with pytest.raises(InputOutputError, match="no log"), TrafficFile(path, VirtualClock()):
        pass
    assert path.read_bytes() == b"SQLite format 3\0"


def test_a_pipe_that_nobody_reads_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(InputOutputError, match="pipe"), TrafficFile(path, VirtualClock()):
        pass


def test_nothing_is_written_to_a_port() -> None:
    """It might be the stage's."""
    board, port = os.openpty()
    os.set_blocking(board, False)
    try:
        with (
            pytest.raises(InputOutputError, match="serial port"),
            TrafficFile(Path(os.ttyname(port)), VirtualClock()),
        ):
            pass
        with pytest.raises(BlockingIOError):
            os.read(board, 1)
    finally:
        os.close(board)
        os.close(port)
