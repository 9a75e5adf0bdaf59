"""The emulated Zaber device, where its driver and the vendor's client do not go."""

import os
from pathlib import Path

import pytest

from macontrol.controller.clock import WallClock
from macontrol.sim.boards.zaber import VirtualZaber


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
def test_what_it_cannot_do_it_refuses_and_goes_on(tmp_path: Path, sent: str, answer: str) -> None:
    with VirtualZaber(WallClock(), link=tmp_path / "tty") as device:
        port = os.open(device.port, os.O_RDWR | os.O_NOCTTY)
        try:
            os.write(port, f"/1 1 04 {sent}\n/1 1 05 get limit.min\n".encode())
            heard = b""
            while heard.count(b"\n") < 2:
                heard += os.read(port, 100)
        finally:
            os.close(port)
    assert heard.decode() == f"@01 1 04 {answer}\r\n@01 1 05 OK IDLE WR 0\r\n"
