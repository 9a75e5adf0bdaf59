"""The traffic log: a file that never delays the driver."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from macontrol.config.files import free_space
from macontrol.config.files.free_space import FreeSpace
from macontrol.config.model.errors import InputOutputError
from macontrol.controller.runtime.clock import VirtualClock
from macontrol.hal.serial import traffic_log
from macontrol.hal.serial.traffic_log import TrafficFile


def test_each_piece_is_a_line_with_time_direction_and_bytes(tmp_path: Path) -> None:
    clock, path = VirtualClock(100.0), tmp_path / "traffic.log"
    with TrafficFile(path, clock) as log:
        log(">", b"$H\n")
        clock.sleep_until(102.5)
        log("<", b"ok\r\n\x85\xff\\")
    assert path.read_text().splitlines() == [
        r"    0.000000 > $H\n",
        r"    2.500000 < ok\r\n\x85\xff\\",
    ]


def test_the_file_can_be_read_while_the_log_is_open(tmp_path: Path) -> None:
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
        log._writer.join(10.0)
    # The pieces that filled the buffer are not counted: the disk refuses them together.
    assert 500 < log.lost <= 1000


def test_after_its_end_the_queue_stays_empty() -> None:
    with TrafficFile(Path("/dev/full"), VirtualClock()) as log:
        log("<", b"ok\r\n")
        log._writer.join(10.0)
        assert not log._writer.is_alive()
        for _ in range(1000):
            log("<", b"ok\r\n")
        assert log._queue.qsize() == 0


def test_only_an_earlier_log_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "traffic.log"
    for byte in (b"1", b"2"):
        with TrafficFile(path, VirtualClock()) as log:
            log("<", byte)
    assert path.read_text() == "    0.000000 < 2\n"
    path.write_bytes(b"SQLite format 3\0")
    with (
        pytest.raises(InputOutputError, match="not a traffic log"),
        TrafficFile(path, VirtualClock()),
    ):
        pass
    assert path.read_bytes() == b"SQLite format 3\0"


def test_a_pipe_without_a_reader_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(InputOutputError, match="pipe"), TrafficFile(path, VirtualClock()):
        pass


def test_nothing_is_written_to_a_port() -> None:
    """It could be the port of the stage."""
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


@pytest.mark.fault("disk-hangs-traffic")
def test_while_the_disk_hangs_the_queue_is_bounded_and_losses_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe that is not read replaces the disk: writing blocks."""
    monkeypatch.setattr(traffic_log, "MOST_WAITING", 10)
    path, problems = tmp_path / "pipe", list[str]()
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with TrafficFile(path, VirtualClock(), on_problem=problems.append) as log:
            sent = 0
            while log.lost < 100:
                log("<", b"x" * 1000)
                sent += 1
                assert log._queue.qsize() <= 10
            assert len(problems) == 1
            assert "the disk does not respond" in problems[0]
            seen = b""
            while b"! 100 pieces are lost here" not in seen:
                with suppress(BlockingIOError):
                    seen += os.read(reader, 1 << 16)
                if log._queue.empty():  # the next piece that is written reports the loss
                    log(">", b"?")
                    sent += 1
            while log._queue.qsize():
                with suppress(BlockingIOError):
                    seen += os.read(reader, 1 << 16)
        with suppress(BlockingIOError):
            while more := os.read(reader, 1 << 16):
                seen += more
        assert log.lost == 100
        assert seen.count(b" < ") + seen.count(b" > ") == sent - 100
    finally:
        os.close(reader)


@pytest.mark.fault("disk-hangs-traffic")
def test_pieces_that_are_not_written_by_the_end_are_counted_as_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    room = FreeSpace(tmp_path, 1.0, measure=lambda _: float(not release.wait(10.0)) + 5.0)
    monkeypatch.setattr(traffic_log, "_LAST_S", 0.05)
    with TrafficFile(tmp_path / "traffic.log", VirtualClock(), room=room) as log:
        for _ in range(5):
            log("<", b"ok")
    assert log.lost in (4, 5)
    release.set()
    log._writer.join(10.0)


@pytest.mark.fault("low-space")
def test_below_the_limit_of_free_space_pieces_are_dropped_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(free_space, "_CHECK_INTERVAL_S", 0.0)
    free, problems, path = [100.0], list[str](), tmp_path / "traffic.log"
    room = FreeSpace(tmp_path, 200.0, measure=lambda _: free[0])
    with TrafficFile(path, VirtualClock(), on_problem=problems.append, room=room) as log:
        for _ in range(3):
            log("<", b"ok")
        while log.lost < 3:
            pass
        free[0] = 300.0
        log("<", b"again")
    assert path.read_text().splitlines() == [
        "    0.000000 ! 3 pieces are lost here",
        "    0.000000 < again",
    ]
    assert log.lost == 3
    assert len(problems) == 1
    assert "100 MB" in problems[0]


def test_a_log_that_begins_with_a_loss_is_still_a_log(tmp_path: Path) -> None:
    path = tmp_path / "traffic.log"
    path.write_text("    0.000000 ! 3 pieces are lost here\n")
    with TrafficFile(path, VirtualClock()) as log:
        log("<", b"2")
    assert path.read_text() == "    0.000000 < 2\n"
