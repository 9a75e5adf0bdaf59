"""What the service manager hears, over a datagram socket like its own."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from macontrol.controller.host.notify import Notifier


class Manager:
    """The receiving end: systemd's side of NOTIFY_SOCKET."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        self.socket.bind("\0" + name[1:] if name.startswith("@") else name)

    def heard(self) -> list[str]:
        messages = []
        while True:
            try:
                messages.append(self.socket.recv(4096).decode())
            except BlockingIOError:
                return messages


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    abstract = request.param == "abstract"
    manager = Manager(f"@macontrol-{os.getpid()}" if abstract else str(tmp_path / "notify"))
    yield manager
    manager.socket.close()


class Time:
    """A time that passes when told to."""

    def __init__(self) -> None:
        self.s = 100.0

    def __call__(self) -> float:
        return self.s


def listener(manager: Manager, variables: dict[str, str], now: Time | None = None) -> Notifier:
    return Notifier({"NOTIFY_SOCKET": manager.name, **variables}, now or Time())


def test_ready_status_and_stopping_are_heard(manager: Manager) -> None:
    notifier = listener(manager, {})
    assert notifier.enabled
    notifier.ready("slot 0")
    notifier.status("slot 200,\n1 missed")
    notifier.stopping("asked to")
    notifier.close()
    assert manager.heard() == [
        "READY=1\nSTATUS=slot 0\n",
        "STATUS=slot 200, 1 missed\n",
        "STOPPING=1\nSTATUS=asked to\n",
    ]


def test_the_watchdog_is_fed_four_times_in_the_time_allowed(manager: Manager) -> None:
    now = Time()
    notifier = listener(
        manager, {"WATCHDOG_USEC": "2000000", "WATCHDOG_PID": str(os.getpid())}, now
    )
    assert notifier.watchdog_interval_s == 0.5
    for _ in range(400):  # 2 s of 5 ms slots
        notifier.watchdog()
        now.s += 0.005
    notifier.close()
    assert manager.heard() == ["WATCHDOG=1\n"] * 4


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"WATCHDOG_USEC": "0"},
        {"WATCHDOG_USEC": "soon"},
        {"WATCHDOG_USEC": "2000000", "WATCHDOG_PID": "1"},
    ],
)
def test_a_watchdog_that_is_not_ours_is_not_fed(
    manager: Manager, variables: dict[str, str]
) -> None:
    notifier = listener(manager, variables)
    notifier.watchdog()
    notifier.close()
    assert notifier.watchdog_interval_s is None
    assert manager.heard() == []


@pytest.mark.parametrize("name", ["", "vsock:2:1234", "relative/path"])
def test_without_a_service_manager_nothing_happens(name: str) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "1000"})
    assert not notifier.enabled
    notifier.ready("up")
    notifier.status("fine")
    notifier.watchdog()
    notifier.stopping()
    notifier.close()


def test_a_manager_that_went_away_disturbs_nobody(tmp_path: Path) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": str(tmp_path / "gone"), "WATCHDOG_USEC": "1000000"})
    notifier.ready("up")
    notifier.watchdog()
    notifier.stopping()
    notifier.close()
    notifier.status("after the end")


def test_ready_is_not_lost_to_a_full_queue_and_nothing_waits(manager: Manager) -> None:
    notifier = listener(manager, {"WATCHDOG_USEC": "4000000", "WATCHDOG_PID": str(os.getpid())})
    for number in range(1000):  # more than any queue holds
        notifier.status(str(number))
    notifier.ready("up")
    notifier.watchdog()  # is not heard either, so it is due again at once
    assert len(manager.heard()) < 1000
    notifier.watchdog()
    notifier.close()
    assert manager.heard() == ["READY=1\nSTATUS=up\nWATCHDOG=1\n"]
