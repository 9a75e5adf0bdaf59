"""Messages to the service manager, over a datagram socket."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from macontrol.controller.host.notify import Notifier


class Manager:
    """The receiver: the side of systemd of NOTIFY_SOCKET."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        self.socket.bind("\0" + name[1:] if name.startswith("@") else name)

    def received(self) -> list[str]:
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
    """A time that the test sets."""

    def __init__(self) -> None:
        self.s = 100.0

    def __call__(self) -> float:
        return self.s


def notifier_for(manager: Manager, variables: dict[str, str], now: Time | None = None) -> Notifier:
    return Notifier({"NOTIFY_SOCKET": manager.name, **variables}, now or Time())


def test_ready_status_and_stopping_are_sent(manager: Manager) -> None:
    notifier = notifier_for(manager, {})
    assert notifier.enabled
    notifier.ready("slot 0")
    notifier.status("slot 200,\n1 missed")
    notifier.stopping("requested")
    notifier.close()
    assert manager.received() == [
        "READY=1\nSTATUS=slot 0\n",
        "STATUS=slot 200, 1 missed\n",
        "STOPPING=1\nSTATUS=requested\n",
    ]


def test_the_watchdog_gets_four_messages_per_timeout(manager: Manager) -> None:
    now = Time()
    notifier = notifier_for(
        manager, {"WATCHDOG_USEC": "2000000", "WATCHDOG_PID": str(os.getpid())}, now
    )
    assert notifier.watchdog_interval_s == 0.5
    for _ in range(400):  # 2 s of 5 ms slots
        notifier.watchdog()
        now.s += 0.005
    notifier.close()
    assert manager.received() == ["WATCHDOG=1\n"] * 4


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"WATCHDOG_USEC": "0"},
        {"WATCHDOG_USEC": "soon"},
        {"WATCHDOG_USEC": "2000000", "WATCHDOG_PID": "1"},
    ],
)
def test_the_watchdog_of_another_process_gets_no_message(
    manager: Manager, variables: dict[str, str]
) -> None:
    notifier = notifier_for(manager, variables)
    notifier.watchdog()
    notifier.close()
    assert notifier.watchdog_interval_s is None
    assert manager.received() == []


@pytest.mark.parametrize("name", ["", "vsock:2:1234", "relative/path"])
def test_without_a_service_manager_there_is_no_effect(name: str) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "1000"})
    assert not notifier.enabled
    notifier.ready("up")
    notifier.status("fine")
    notifier.watchdog()
    notifier.stopping()
    notifier.close()


def test_a_missing_manager_causes_no_error(tmp_path: Path) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": str(tmp_path / "gone"), "WATCHDOG_USEC": "1000000"})
    notifier.ready("up")
    notifier.watchdog()
    notifier.stopping()
    notifier.close()
    notifier.status("after the end")


def test_ready_is_sent_later_if_the_queue_is_full(manager: Manager) -> None:
    notifier = notifier_for(manager, {"WATCHDOG_USEC": "4000000", "WATCHDOG_PID": str(os.getpid())})
    for number in range(1000):  # more than the size of any queue
        notifier.status(str(number))
    notifier.ready("up")
    notifier.watchdog()  # not received either, so it is due again immediately
    assert len(manager.received()) < 1000
    notifier.watchdog()
    notifier.close()
    assert manager.received() == ["READY=1\nSTATUS=up\nWATCHDOG=1\n"]
