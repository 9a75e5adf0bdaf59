"""One serial connection that talks in lines: the transport under every serial stage.

Deadlines are moments of the clock, not timeouts of a read, and the line buffer is our own, so a
board that drips single bytes cannot hold anybody up. A port belongs to one process (flock keeps
out those who ask, TIOCEXCL those who do not). Whatever looks like an unplugged cable closes the
descriptor at once, so that the device can come back under its own name.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import termios
from collections import deque
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Literal, NoReturn, Protocol, TypeAlias

import serial

from macontrol.config.model.errors import LineBusyError, LineError, LineLostError
from macontrol.hal.clock import Clock

LONGEST_LINE = 1024
"""Bytes without a line end beyond this are garbage, and are dropped."""

# How long a port has to take bytes, even past a deadline: losing it costs a homing.
_LEAST_WRITE_S = 0.05
_PULSE_S = 0.05
# How long the last bytes, which may be those that stop a motor, have to get out of the computer.
_LAST_WORDS_S = 0.1
_POLL_INTERVAL_S = 0.002
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 2.0

TrafficLog: TypeAlias = Callable[[str, bytes], None]
"""Called with ">" or "<" and the bytes that went out or came in."""
ControlLine: TypeAlias = Literal["assert", "clear", "pulse"]


class Line(Protocol):
    """What a driver needs of a connection. Any method may raise LineLostError."""

    def write(self, data: bytes, deadline_s: float = inf) -> None:
        """Send bytes as they are; a port that has not taken them by the deadline is lost."""
        ...

    def read_line(self, deadline_s: float) -> bytes | None:
        """Get the next line without its end, or None if there is none by the deadline."""
        ...

    def close(self) -> None:
        """Let go of the port; nothing happens if it is closed."""
        ...


class LineBuffer:
    """Cuts a stream of bytes into lines. Any bytes will do; memory is bounded."""

    def __init__(self) -> None:
        self._partial = bytearray()
        self._lines: deque[bytes] = deque()

    def feed(self, data: bytes) -> None:
        """Take in bytes as they came."""
        self._partial += data
        *complete, rest = self._partial.split(b"\n")
        self._lines.extend(bytes(line.rstrip(b"\r")) for line in complete)
        self._partial = rest if len(rest) <= LONGEST_LINE else bytearray()

    def take(self) -> bytes | None:
        """Get the oldest complete line, if there is one."""
        return self._lines.popleft() if self._lines else None

    def clear(self) -> None:
        """Forget everything."""
        self._partial.clear()
        self._lines.clear()


class SerialLine:
    """A serial port, opened for this process alone, 8N1."""

    def __init__(
        self,
        port: str,
        baud_rate: int,
        clock: Clock,
        *,
        dtr: ControlLine = "assert",
        rts: ControlLine = "assert",
        write_timeout_s: float = 0.5,
        log: TrafficLog | None = None,
    ) -> None:
        self._port = port
        self._clock = clock
        self._log = log
        self._write_timeout_s = write_timeout_s
        self._buffer = LineBuffer()
        self._overdue_s: float | None = None
        """The deadline after which the port was last looked at."""
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
        except (OSError, ValueError, termios.error) as error:  # it may vanish this very moment
            self.close()
            raise _why_not_open(port, error) from None
        try:
            self.low_latency = self._ask_for_low_latency()
            """Whether the driver passes bytes on at once."""
            if "pulse" in (dtr, rts):
                self._pulse(dtr == "pulse", rts == "pulse")
        except BaseException:
            self.close()
            raise

    @property
    def is_open(self) -> bool:
        return bool(self._serial.is_open)

    def write(self, data: bytes, deadline_s: float = inf) -> None:
        """Send bytes as they are; they are waited for to be taken, but not to be sent.

        A port that has not taken them all by the deadline, or within the write timeout if that is
        earlier, is lost: nobody knows what the board makes of half a command.
        """
        self._require_open()
        if self._log is not None:
            self._log(">", data)
        now = self._clock.now()
        until = min(max(deadline_s, now + _LEAST_WRITE_S), now + self._write_timeout_s)
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
        """How many of the bytes the port took at once."""
        try:
            return os.write(self._serial.fileno(), data)
        except BlockingIOError:
            return 0

    def read_line(self, deadline_s: float) -> bytes | None:
        """Get the next line without its end, or None if there is none by the deadline.

        Past a deadline the port is looked at once: what is there is had, but a board that talks
        without a pause holds nobody up.
        """
        while True:
            line = self._buffer.take()
            if line is not None:
                return line
            self._require_open()
            left = max(deadline_s - self._clock.now(), 0.0)
            if left == 0.0:
                if self._overdue_s == deadline_s:
                    return None
                self._overdue_s = deadline_s
            try:
                if not select.select([self._serial.fileno()], [], [], left)[0]:
                    return None
                data = self._serial.read(max(self._serial.in_waiting, 1))
            except (OSError, TypeError, ValueError) as error:
                self._lose(error)
            if self._log is not None:
                self._log("<", data)
            self._buffer.feed(data)

    def close(self) -> None:
        """Let go of the port: the last words are sent, but a board that takes none not waited for.

        What is dropped here is what the driver would try to send for half a minute.
        """
        self._let_go(_LAST_WORDS_S)

    def _let_go(self, last_words_s: float) -> None:
        if self._serial.is_open:
            with contextlib.suppress(OSError, TypeError, termios.error):
                if not self._is_all_sent(self._clock.now() + last_words_s):
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
        self._let_go(0.0)
        what = (
            "does not take what it is sent"
            if isinstance(error, serial.SerialTimeoutException)
            else "is gone (unplugged, or switched off?)"
        )
        raise LineLostError(f"{self._port}: the port {what}: {error}") from None

    def _ask_for_low_latency(self) -> bool:
        """Ask for bytes to be passed on at once; a USB adapter may else hold them for 16 ms."""
        try:
            self._serial.set_low_latency_mode(True)
        except (OSError, ValueError, AttributeError, NotImplementedError):
            return False  # a pseudo-terminal, or a driver that knows no such thing
        return True

    def _pulse(self, dtr: bool, rts: bool) -> None:
        """Raise and drop control lines, which resets boards that an open alone does not."""
        with contextlib.suppress(OSError):  # a pseudo-terminal has none
            for level in (True, False):
                if dtr:
                    self._serial.dtr = level
                if rts:
                    self._serial.rts = level
                self._clock.sleep_until(self._clock.now() + _PULSE_S)


def open_with_back_off(
    open_line: Callable[[], Line],
    clock: Clock,
    deadline_s: float,
    wait_until: Callable[[float], None],
) -> Line:
    """Try to open a port again and again, at growing intervals, until the deadline."""
    pause = _FIRST_PAUSE_S
    while True:
        try:
            return open_line()
        except LineError:
            if clock.now() + pause >= deadline_s:
                raise
        wait_until(clock.now() + pause)
        pause = min(2 * pause, _LONGEST_PAUSE_S)


def _why_not_open(port: str, error: Exception) -> LineError:
    code = getattr(error, "errno", None)
    if code in (errno.EBUSY, errno.EAGAIN, errno.EWOULDBLOCK):
        return LineBusyError(f"{port} is in use by another program; `sudo fuser {port}` names it")
    if code in (errno.ENOENT, errno.ENAMETOOLONG):
        why = "does not exist; give --port one of those that `macontrol devices` lists"
    elif code in (errno.EACCES, errno.EPERM):
        why = "may not be opened by this user; `macontrol check --backend serial` says why"
    # pyserial gives this number only in words.
    elif f"({errno.ENOTTY}, " in str(error) or not Path(port).is_char_device():
        why = "is no serial port; give --port one of those that `macontrol devices` lists"
    else:
        why = f"cannot be opened: {error}"
    return LineError(f"{port} {why}")
