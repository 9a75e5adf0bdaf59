"""The emulated serial port, with clients that connect, disconnect and are killed."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from macontrol.controller.runtime.clock import WallClock
from macontrol.sim.bench.boards.port import VirtualPort

CLOCK = WallClock()
PATIENCE_S = 20.0
CLIENT = """
import fcntl, os, sys, termios
terminal = os.open(sys.argv[1], os.O_RDWR | os.O_NOCTTY)
fcntl.ioctl(terminal, termios.TIOCEXCL)
os.write(terminal, b"x" * int(sys.argv[2]))
print(flush=True)
sys.stdin.read()
"""


@pytest.fixture
def link(tmp_path: Path) -> Path:
    return tmp_path / "stage"


@pytest.fixture
def port(link: Path) -> Iterator[VirtualPort]:
    port = VirtualPort(CLOCK, link)
    yield port
    port.close()


def until_open_is(expected: bool, port: VirtualPort) -> bytes:
    """Run the emulator until its client has connected or disconnected; the received bytes."""
    received, until = b"", CLOCK.now() + PATIENCE_S
    while port.is_open is not expected:
        assert CLOCK.now() < until
        received += port.wait(CLOCK.now() + 0.1)
    return received


def kill_exclusive_client(port: VirtualPort, leaves: int = 0) -> bytes:
    """Kill a client that has the port exclusively; the bytes that it sent."""
    words = [sys.executable, "-c", CLIENT, port.name, str(leaves)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == b"\n"
        until_open_is(True, port)
        client.kill()
    return until_open_is(False, port)


def open_client(port: VirtualPort) -> int:
    return os.open(port.name, os.O_RDWR | os.O_NOCTTY)


@pytest.mark.fault("virtual-port-exclusive-flag")
def test_a_client_can_connect_after_one_that_was_killed(port: VirtualPort, link: Path) -> None:
    for _ in range(2):
        kill_exclusive_client(port)
        client = open_client(port)
        assert fcntl.ioctl(client, 0x80045440, bytes(4)) == bytes(4)  # TIOCGEXCL
        assert link.readlink() == Path(os.ttyname(client))
        until_open_is(True, port)
        os.write(client, b"?")
        assert port.wait(CLOCK.now() + PATIENCE_S) == b"?"
        port.send(b"ok")
        assert os.read(client, 10) == b"ok"
        os.close(client)
        until_open_is(False, port)


def test_everything_that_a_killed_client_has_sent_arrives(port: VirtualPort) -> None:
    assert kill_exclusive_client(port, leaves=3000) == b"x" * 3000
