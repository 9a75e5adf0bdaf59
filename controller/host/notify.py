"""Messages to the service manager (sd_notify): ready, status, watchdog, stopping.

The slot loop calls these methods, so that the watchdog messages end if the loop hangs. No method
waits or raises an error. Without a service manager they have no effect.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping


class Notifier:
    """The connection to the service manager of the environment (NOTIFY_SOCKET, WATCHDOG_USEC)."""

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
        """Interval of watchdog messages: a quarter of the timeout; None without a watchdog."""
        self._next_ping_s = now()
        self._unsent = ""

    @property
    def enabled(self) -> bool:
        """Whether there is a service manager."""
        return self._socket is not None

    def ready(self, status: str = "") -> None:
        """Report that the service has started; the watchdog starts now."""
        self._send_reliably("READY=1\n" + _status(status))

    def status(self, text: str) -> None:
        """Report the status in one line, about once per second rather than per slot."""
        self._send(_status(text))

    def watchdog(self) -> None:
        """Report that the loop is running. Call it in every slot; it sends only when necessary."""
        if self.watchdog_interval_s is None:
            return
        now = self._now()
        if now >= self._next_ping_s and self._send("WATCHDOG=1\n"):
            self._next_ping_s = now + self.watchdog_interval_s

    def stopping(self, status: str = "") -> None:
        """Report that the service stops."""
        self._send_reliably("STOPPING=1\n" + _status(status))

    def close(self) -> None:
        """Close the socket; later messages have no effect."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self.watchdog_interval_s = None

    def _send_reliably(self, message: str) -> None:
        """Send now, or together with the next message if the queue of the manager is full."""
        self._unsent += message
        self._send("")

    def _send(self, message: str) -> bool:
        if self._socket is None:
            return False
        text = self._unsent + message
        try:
            self._socket.sendto(text.encode("utf-8", "replace"), self._address)
        except OSError:  # a full queue, or no manager any more: the slot is more important
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
        pid = int(variables.get("WATCHDOG_PID", "") or os.getpid())
    except ValueError:
        return None
    return allowed * 1e-6 / 4 if allowed > 0 and pid == os.getpid() else None


def _status(text: str) -> str:
    return f"STATUS={' '.join(text.split())}\n" if text else ""
