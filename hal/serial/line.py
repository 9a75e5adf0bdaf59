"""One serial port that sends bytes and receives messages: the transport of every serial stage.

A deadline is a time on the clock, not a timeout per read, and messages are cut here, not by the
operating system: a board that sends single bytes slowly cannot block a caller. One process owns a
port: flock excludes programs that check for it, TIOCEXCL all others. An I/O error closes the
descriptor immediately, so that a device that is plugged in again gets its old name back.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import termios
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import NoReturn, Protocol, TypeAlias

import serial

from macontrol.config.model.errors import LineBusyError, LineError, LineLostError
from macontrol.config.sections.stage import ControlLine
from macontrol.hal.clock import Clock
from macontrol.hal.serial.framing import Framing, LineBuffer

# A write may take this long even past its deadline: to lose the port costs a homing.
_SHORTEST_WRITE_S = 0.05
_PULSE_S = 0.05
# How long `close` waits for the last bytes, which may stop a motor, to leave the computer.
_FLUSH_S = 0.1
_POLL_INTERVAL_S = 0.002
_LIST_PORTS = "give --port one of those that `macontrol devices` lists"

TrafficLog: TypeAlias = Callable[[str, bytes], None]
"""Called with ">" or "<" and the bytes that were sent or received."""


class Line(Protocol):
    """What a driver needs from a connection. Any method may raise LineLostError."""

    def write(self, data: bytes, deadline_s: float = inf) -> None:
        """Send bytes unchanged; raise LineLostError if the port does not accept them in time."""

    def read_message(self, deadline_s: float) -> bytes | None:
        """Return the next message, or None if none arrives by the deadline."""

    def close(self) -> None:
        """Close the port; do nothing if it is closed."""


class SerialLine:
    """A serial port, opened exclusively, 8N1. `framing` cuts messages; the default is lines."""

    def __init__(
        self,
        port: str,
        baud_rate: int,
        clock: Clock,
        *,
        dtr: ControlLine = "assert",
        rts: ControlLine = "assert",
        write_timeout_s: float = 0.5,
        framing: Framing | None = None,
        log: TrafficLog | None = None,
    ) -> None:
        self._port = port
        self._clock = clock
        self._log = log
        self._write_timeout_s = write_timeout_s
        self._framing = framing or LineBuffer()
        self._polled_deadline_s: float | None = None
        """The deadline after which the port was last polled."""
        self._serial = serial.Serial()
        self._serial.port = port
        self._serial.baudrate = baud_rate
        self._serial.timeout = 0
        self._serial.exclusive = True
        self._serial.dtr = dtr == "assert"
        self._serial.rts = rts == "assert"
        try:
            self._serial.open()
            fcntl.ioctl(self._serial.fileno(), termios.TIOCEXCL)
        except (OSError, ValueError, termios.error) as error:  # the port may vanish meanwhile
            self.close()
            raise _open_error(port, error) from None
        try:
            self._request_low_latency()
            if "pulse" in (dtr, rts):
                self._pulse(dtr == "pulse", rts == "pulse")
        except BaseException:
            self.close()
            raise

    @property
    def is_open(self) -> bool:
        return bool(self._serial.is_open)

    def write(self, data: bytes, deadline_s: float = inf) -> None:
        """Send bytes unchanged; return when the kernel has accepted them.

        A port that has not accepted all bytes by the deadline, or within the write timeout if that
        is earlier, is lost: the effect of half a command is unknown.
        """
        self._require_open()
        if self._log is not None:
            self._log(">", data)
        now = self._clock.now()
        until = min(max(deadline_s, now + _SHORTEST_WRITE_S), now + self._write_timeout_s)
        left = memoryview(data)
        try:
            while left := left[self._write_some(left) :]:
                if self._clock.now() >= until:
                    raise serial.SerialTimeoutException("Write timeout")
                wait = max(until - self._clock.now(), 0.0)
                select.select([], [self._serial.fileno()], [], wait)
        except (OSError, TypeError, ValueError) as error:  # pyserial's errors are OSErrors
            self._lose(error)

    def _write_some(self, data: memoryview) -> int:
        """Return how many of the bytes the port accepts without waiting."""
        try:
            return os.write(self._serial.fileno(), data)
        except BlockingIOError:
            return 0

    def read_message(self, deadline_s: float) -> bytes | None:
        """Return the next message, or None if none arrives by the deadline.

        After a deadline the port is polled once: data that is already there is read, but a board
        that sends without a pause cannot block the caller.
        """
        while True:
            message = self._framing.take()
            if message is not None:
                return message
            self._require_open()
            left = max(deadline_s - self._clock.now(), 0.0)
            if left == 0.0:
                if self._polled_deadline_s == deadline_s:
                    return None
                self._polled_deadline_s = deadline_s
            try:
                if not select.select([self._serial.fileno()], [], [], left)[0]:
                    return None
                data = self._serial.read(max(self._serial.in_waiting, 1))
            except (OSError, TypeError, ValueError) as error:
                self._lose(error)
            if self._log is not None:
                self._log("<", data)
            self._framing.feed(data)

    def close(self) -> None:
        """Send the last bytes and close the port; do not wait for a board that accepts none.

        Without the reset of the output buffer the kernel would try to send it for 30 s.
        """
        self._close(_FLUSH_S)

    def _close(self, flush_s: float) -> None:
        if self._serial.is_open:
            with contextlib.suppress(OSError, TypeError, termios.error):
                if not self._is_all_sent(self._clock.now() + flush_s):
                    self._serial.reset_output_buffer()
            # A pseudo-terminal stays exclusive after its last close, unlike a device.
            with contextlib.suppress(OSError):
                fcntl.ioctl(self._serial.fileno(), termios.TIOCNXCL)
            with contextlib.suppress(OSError, TypeError):
                self._serial.close()

    def _is_all_sent(self, until_s: float) -> bool:
        while self._serial.out_waiting > 0:
            if self._clock.now() >= until_s:
                return False
            self._clock.sleep_until(self._clock.now() + _POLL_INTERVAL_S)
        return True

    def _require_open(self) -> None:
        if not self._serial.is_open:
            raise LineLostError(f"{self._port}: the connection is closed")

    def _lose(self, error: Exception) -> NoReturn:
        self._close(0.0)
        if isinstance(error, serial.SerialTimeoutException):
            raise LineLostError(f"{self._port}: the port accepts no data: {error}") from None
        raise LineLostError(
            f"{self._port}: the port is gone: {error}", "check its cable and its power"
        ) from None

    def _request_low_latency(self) -> None:
        """Request that bytes are passed on immediately; a USB adapter may hold them for 16 ms."""
        # A pseudo-terminal and some drivers do not have this mode.
        with contextlib.suppress(OSError, ValueError, AttributeError, NotImplementedError):
            self._serial.set_low_latency_mode(True)

    def _pulse(self, dtr: bool, rts: bool) -> None:
        """Raise and drop control lines: this resets boards that an open alone does not reset."""
        with contextlib.suppress(OSError):  # a pseudo-terminal has no control lines
            for level in (True, False):
                if dtr:
                    self._serial.dtr = level
                if rts:
                    self._serial.rts = level
                self._clock.sleep_until(self._clock.now() + _PULSE_S)


def _open_error(port: str, error: Exception) -> LineError:
    code = getattr(error, "errno", None)
    if code in (errno.EBUSY, errno.EAGAIN, errno.EWOULDBLOCK):
        return LineBusyError(
            f"{port} is in use by another program", f"find it with `sudo fuser {port}` and end it"
        )
    if code in (errno.ENOENT, errno.ENAMETOOLONG):
        return LineError(f"{port} does not exist", _LIST_PORTS)
    if code in (errno.EACCES, errno.EPERM):
        return LineError(
            f"{port}: this user has no permission to open it",
            "run `macontrol check --backend serial` for the reason",
        )
    cause = error.__context__  # pyserial's own error has no number
    is_no_terminal = isinstance(cause, termios.error) and cause.args[0] == errno.ENOTTY
    if is_no_terminal or not Path(port).is_char_device():
        return LineError(f"{port} is not a serial port", _LIST_PORTS)
    return LineError(f"{port} cannot be opened: {error}")
