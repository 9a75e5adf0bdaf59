"""An emulated serial port: a pseudo-terminal that can be unplugged and can be slow.

One thread owns it and waits for input; other threads may wake that thread.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import termios
import threading
import tty
from collections import deque
from math import ceil
from pathlib import Path
from typing import Self

from macontrol.hal import Clock

_POLL_INTERVAL_S = 0.002
# The most terminals to open to get one of a given name; the kernel gives the lowest free number.
_MOST_OPENED = 64


class VirtualPort:
    """The device's end of the cable. A client opens `name`."""

    def __init__(self, clock: Clock, link: Path | None = None) -> None:
        """`link` is a name that stays the same when the port is plugged in again.

        Raise FileExistsError if it exists and is not the link of an earlier port.
        """
        if link is not None and os.path.lexists(link) and not _is_port_link(link):
            raise FileExistsError(f"{link} exists; choose another name for the port")
        self._clock = clock
        self._link = link
        self._master = -1
        self._terminal = ""
        self._outgoing: deque[tuple[float, bytes]] = deque()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        self.is_open = False
        """Whether a client had the port open at the last look."""
        self.slowness_s = 0.0
        """The delay of everything that is sent."""
        self.plug_in()

    @property
    def name(self) -> str:
        return str(self._link) if self._link is not None else self._terminal

    def plug_in(self) -> None:
        self.unplug()
        self._master, self._terminal = _open_terminal()
        self._point_link()

    def _point_link(self) -> None:
        if self._link is not None:
            self._link.unlink(missing_ok=True)
            self._link.symlink_to(self._terminal)

    def unplug(self) -> None:
        if self._master >= 0:
            os.close(self._master)
        self._master, self.is_open = -1, False
        if self._link is not None:
            with contextlib.suppress(OSError):
                if os.readlink(self._link) == self._terminal:  # not the link of another bench
                    self._link.unlink()
        self.drop_unsent()

    def close(self) -> None:
        self.unplug()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def wake(self) -> None:
        """Wake the thread that waits."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_write, b"x")

    def send(self, data: bytes, delay_s: float = 0.0) -> None:
        """Send bytes, now or after a delay; they are lost if no client has the port open."""
        self._outgoing.append((self._clock.now() + self.slowness_s + delay_s, data))
        self._send_what_is_due()

    def drop_unsent(self) -> None:
        self._outgoing.clear()

    def wait(self, until_s: float) -> bytes:
        """Wait at most until a moment; return the bytes that ended the wait, if any."""
        self._send_what_is_due()
        if self._outgoing:
            until_s = min(until_s, self._outgoing[0][0])
        timeout_s = max(until_s - self._clock.now(), 0.0)
        poll = select.poll()
        poll.register(self._wake_read, select.POLLIN)
        if self._master >= 0:
            poll.register(self._master, select.POLLIN)
        # A terminal without a client reports a hang-up in every poll: do not poll with a timeout.
        abandoned = self._master >= 0 and not self.is_open
        # Rounded up, or a wait that ends just before the moment would be repeated many times.
        events = dict(poll.poll(0 if abandoned else ceil(timeout_s * 1e3)))
        if events.get(self._wake_read, 0):
            os.read(self._wake_read, 4096)
        if self._master < 0:
            return b""
        happened = events.get(self._master, 0)
        self.is_open = not happened & select.POLLHUP or bool(happened & select.POLLIN)
        if abandoned:
            if not self.is_open:
                self._clock.sleep_until(self._clock.now() + min(timeout_s, _POLL_INTERVAL_S))
        elif not self.is_open:
            self._end_exclusive_use()
        elif happened & select.POLLIN:
            with contextlib.suppress(OSError):
                return os.read(self._master, 4096)
        return b""

    def _end_exclusive_use(self) -> None:
        """Clear TIOCEXCL after a client has gone, so that the next one can open the port.

        A killed client cannot clear its flag, and the kernel keeps it while the master is open.
        It is cleared through the slave, which only the superuser can open then. Other users get
        a new terminal of the same name.
        """
        try:
            slave = os.open(self._terminal, os.O_RDWR | os.O_NOCTTY)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
        else:
            fcntl.ioctl(slave, termios.TIOCNXCL)
            os.close(slave)
            return
        if not self._is_hung_up():  # the next client has opened it
            return
        before = self._terminal
        os.close(self._master)
        self._master, self._terminal = _open_terminal(before)
        if self._terminal != before:
            self._point_link()

    def _is_hung_up(self) -> bool:
        poll = select.poll()
        poll.register(self._master, 0)
        return bool(poll.poll(0))

    def _send_what_is_due(self) -> None:
        while self._outgoing and self._outgoing[0][0] <= self._clock.now():
            _, data = self._outgoing.popleft()
            if not self.is_open or self._is_hung_up():
                continue
            try:
                os.write(self._master, data)
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EIO):
                    raise


class PortThread:
    """A device on a port: its thread runs from `start` to `close`, or within a `with`."""

    def __init__(self, name: str, clock: Clock, link: Path | None) -> None:
        self._clock = clock
        self._wire = VirtualPort(clock, link)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._closing = False

    def _run(self) -> None:
        """Serve the port until `_closing`."""
        raise NotImplementedError

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Switch the device off and remove its port."""
        self._closing = True
        self._wire.wake()
        if self._thread.ident is not None:
            self._thread.join()
        self._wire.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _is_port_link(link: Path) -> bool:
    """Whether a link leads to a pseudo-terminal, as that of an earlier bench does."""
    return link.is_symlink() and os.readlink(link).startswith("/dev/pts/")


def _open_terminal(name: str = "") -> tuple[int, str]:
    """Open a pseudo-terminal, of a given name if possible; its master and its name."""
    master, terminal = _open_any_terminal()
    others: list[int] = []
    while name not in ("", terminal) and len(others) < _MOST_OPENED:
        others.append(master)
        master, terminal = _open_any_terminal()
    for other in others:
        os.close(other)
    return master, terminal


def _open_any_terminal() -> tuple[int, str]:
    master, slave = os.openpty()
    tty.setraw(slave)
    terminal = os.ttyname(slave)
    os.set_blocking(master, False)
    # Close the slave: a terminal reports a client's open and close only without other users.
    os.close(slave)
    return master, terminal
