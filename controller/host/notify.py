"""Word to the service manager: ready, how it goes, still alive, stopping (sd_notify, few lines).

Everything here is called from the slot loop, the watchdog above all: if the loop hangs, so must
the messages. So nothing waits and nothing raises; without a service manager nothing happens.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping


class Notifier:
    """A service manager's ear, as the environment names it (NOTIFY_SOCKET, WATCHDOG_USEC)."""

    def __init__(
        self,
        environment: Mapping[str, str] | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        variables = os.environ if environment is None else environment
        self._now = now
        self._address = _address(variables.get("NOTIFY_SOCKET", ""))
        self._socket: socket.socket | None = None
        if self._address:
            try:
                self._socket = socket.socket(
                    socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC
                )
                self._socket.setblocking(False)
            except OSError:
                self._socket = None
        self.watchdog_interval_s = _watchdog_interval(variables) if self._socket else None
        """How often `watchdog` sends: a quarter of the time allowed; None if nobody watches."""
        self._next_ping_s = now()
        self._unsent = ""

    @property
    def enabled(self) -> bool:
        """Whether there is a service manager to talk to."""
        return self._socket is not None

    def ready(self, status: str = "") -> None:
        """Say that the service is up; from now on the watchdog counts."""
        self._send_surely("READY=1\n" + _status(status))

    def status(self, text: str) -> None:
        """Say in a line how it goes. Not for every slot: about once a second is enough."""
        self._send(_status(text))

    def watchdog(self) -> None:
        """Say that the loop still turns; call it every slot, it sends only as often as needed."""
        if self.watchdog_interval_s is None:
            return
        now = self._now()
        if now >= self._next_ping_s and self._send("WATCHDOG=1\n"):
            self._next_ping_s = now + self.watchdog_interval_s

    def stopping(self, status: str = "") -> None:
        """Say that the service is going down."""
        self._send_surely("STOPPING=1\n" + _status(status))

    def close(self) -> None:
        """Let go of the socket; later messages go nowhere."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self.watchdog_interval_s = None

    def _send_surely(self, message: str) -> None:
        """Send now, or with the next message if the manager's queue is full."""
        self._unsent += message
        self._send("")

    def _send(self, message: str) -> bool:
        if self._socket is None:
            return False
        text = self._unsent + message
        try:
            self._socket.sendto(text.encode("utf-8", "replace"), self._address)
        except OSError:  # a full queue, or a manager that went away: the slot matters more
            return False
        self._unsent = ""
        return True


def _address(name: str) -> str:
    if name.startswith("@"):
        return "\0" + name[1:]
    return name if name.startswith("/") else ""


def _watchdog_interval(variables: Mapping[str, str]) -> float | None:
    try:
        allowed = int(variables.get("WATCHDOG_USEC", ""))
        meant = int(variables.get("WATCHDOG_PID", "") or os.getpid())
    except ValueError:
        return None
    return allowed * 1e-6 / 4 if allowed > 0 and meant == os.getpid() else None


def _status(text: str) -> str:
    return f"STATUS={' '.join(text.split())}\n" if text else ""
