"""A serial port that is not there: a pseudo-terminal that can be unplugged, and be slow.

It belongs to one thread, the one that waits for what comes in; any other may wake it up.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import tty
from collections import deque
from math import ceil
from pathlib import Path

from macontrol.hal import Clock

_LOOK_EVERY_S = 0.002


class VirtualPort:
    """The device's end of the wire. Whoever talks to the device opens `name`."""

    def __init__(self, clock: Clock, link: Path | None = None) -> None:
        """`link` is a name that stays the same when the port is plugged in again.

        FileExistsError if something of that name is there that is not a link.
        """
        if link is not None and os.path.lexists(link) and not link.is_symlink():
            raise FileExistsError(f"{link} is there already; choose another name for the port")
        self._clock = clock
        self._link = link
        self._master = -1
        self._terminal = ""
        self._outgoing: deque[tuple[float, bytes]] = deque()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        self.is_open = False
        """Whether somebody has it open, as far as has been seen."""
        self.slowness_s = 0.0
        """By how much everything that is sent is held back."""
        self.plug_in()

    @property
    def name(self) -> str:
        return str(self._link) if self._link is not None else self._terminal

    def plug_in(self) -> None:
        self.unplug()
        self._master, slave = os.openpty()
        tty.setraw(slave)
        self._terminal = os.ttyname(slave)
        os.set_blocking(self._master, False)
        # Not held open here: what one user has set (as its exclusive use) must end with him, and
        # only a terminal that was opened and closed once tells when somebody opens it.
        os.close(slave)
        if self._link is not None:
            self._link.unlink(missing_ok=True)
            self._link.symlink_to(self._terminal)

    def unplug(self) -> None:
        if self._master >= 0:
            os.close(self._master)
        self._master, self.is_open = -1, False
        if self._link is not None:
            with contextlib.suppress(OSError):
                if os.readlink(self._link) == self._terminal:  # else it is another's by now
                    self._link.unlink()
        self.drop_unsent()

    def close(self) -> None:
        self.unplug()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def wake(self) -> None:
        """End the wait of the thread that waits."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_write, b"x")

    def send(self, data: bytes, delay_s: float = 0.0) -> None:
        """Put bytes on the wire, now or later; if nobody has it open by then, they are gone."""
        self._outgoing.append((self._clock.now() + self.slowness_s + delay_s, data))
        self._send_what_is_due()

    def drop_unsent(self) -> None:
        self._outgoing.clear()

    def wait(self, until_s: float) -> bytes:
        """Let time pass, at most to a moment: the bytes that came, if that is what ended it."""
        self._send_what_is_due()
        if self._outgoing:
            until_s = min(until_s, self._outgoing[0][0])
        timeout_s = max(until_s - self._clock.now(), 0.0)
        poll = select.poll()
        poll.register(self._wake_read, select.POLLIN)
        if self._master >= 0:
            poll.register(self._master, select.POLLIN)
        # What nobody has open reports a hang-up at once, over and over: look at it now and then.
        abandoned = self._master >= 0 and not self.is_open
        # Rounded up: a wait that is too short by a hair would be repeated over and over.
        events = dict(poll.poll(0 if abandoned else ceil(timeout_s * 1e3)))
        if events.get(self._wake_read, 0):
            os.read(self._wake_read, 4096)
        happened = events.get(self._master, 0)
        hung_up = bool(happened & select.POLLHUP)
        if abandoned:
            self.is_open = not hung_up or bool(happened & select.POLLIN)
            if not self.is_open:
                self._clock.sleep_until(self._clock.now() + min(timeout_s, _LOOK_EVERY_S))
            return b""
        self.is_open = self.is_open and not hung_up
        if happened & select.POLLIN:
            with contextlib.suppress(OSError):
                return os.read(self._master, 4096)
        return b""

    def _send_what_is_due(self) -> None:
        while self._outgoing and self._outgoing[0][0] <= self._clock.now():
            _, data = self._outgoing.popleft()
            if not self.is_open:
                continue
            try:
                os.write(self._master, data)
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EIO):
                    raise
