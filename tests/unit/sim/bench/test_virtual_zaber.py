"""The emulated Zaber device, beyond what its driver and the vendor's client use."""

import os
from pathlib import Path

import pytest

from macontrol.controller.runtime.clock import WallClock
from macontrol.sim.bench.boards.zaber import VirtualZaber


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        ("move", "RJ IDLE WR BADCOMMAND"),
        ("move abs", "RJ IDLE WR BADCOMMAND"),
        ("move abs 1e3", "RJ IDLE WR BADDATA"),
        ("move abs 999999999", "RJ IDLE WR BADDATA"),
        ("set version 1", "RJ IDLE WR BADCOMMAND"),
        ("get system.serial", "RJ IDLE WR DEVICEONLY"),
        ("dance", "RJ IDLE WR BADCOMMAND"),
    ],
)
def test_an_unknown_command_is_refused(tmp_path: Path, sent: str, answer: str) -> None:
    with VirtualZaber(WallClock(), link=tmp_path / "tty") as device:
        port = os.open(device.port, os.O_RDWR | os.O_NOCTTY)
        try:
            os.write(port, f"/1 1 04 {sent}\n/1 1 05 get limit.min\n".encode())
            received = b""
            while received.count(b"\n") < 2:
                received += os.read(port, 100)
        finally:
            os.close(port)
    assert received.decode() == f"@01 1 04 {answer}\r\n@01 1 05 OK IDLE WR 0\r\n"


def test_the_first_line_of_a_long_run_is_kept() -> None:
    device = VirtualZaber(WallClock())
    try:
        device._receive(b"/1 1 home\n" + b"/1 1 get pos\n" * 10_000)
        device._take_commands()
    finally:
        device.close()
    assert device.lines[0] == "home"
    assert len(device.lines) == 10_001
