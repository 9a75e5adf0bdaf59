"""A GRBL board that is not there: it answers on a pseudo-terminal and moves a computed carriage.

It is written after the transcripts of GRBL 1.1h on an emulated ATmega328P and of grblHAL's
simulator, and follows the firmware's own order of doing things: real-time characters are taken up
as they come, but acted upon only where the firmware does so. What it counts (`MPos`) and where the
carriage truly is are two things, as on any stage without an encoder. Faults come on demand.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import select
import termios
import threading
import tty
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Literal, TypeAlias

from macontrol.hal import Clock, StageDescription
from macontrol.sim.carriage import Carriage

Dialect: TypeAlias = Literal["grbl", "grblhal"]

DEFAULT_SETTINGS: dict[int, float] = {
    **{0: 10, 1: 255, 2: 0, 3: 0, 4: 0, 5: 0, 6: 0, 10: 1, 11: 0.01, 12: 0.002, 13: 0},
    **{20: 1, 21: 1, 22: 1, 23: 0, 24: 600, 25: 3000, 26: 25, 27: 2, 30: 1000, 31: 0, 32: 0},
    **{100: 80, 101: 80, 102: 80, 110: 6000, 111: 6000, 112: 6000},
    **{120: 500, 121: 500, 122: 500, 130: 100, 131: 100, 132: 100},
}
"""A belt-driven rail of 100 mm with a switch at its positive end."""

_WHOLE = frozenset({0, 1, 2, 3, 4, 5, 6, 10, 13, 20, 21, 22, 23, 26, 30, 31, 32})
_BANNERS = {
    "grbl": "\r\nGrbl 1.1h ['$' for help]",
    "grblhal": "\r\nGrblHAL 1.1f ['$' or '$HELP' for help]",
}
_WORD = re.compile(r"([A-Z])([-+]?\d*\.?\d*)")
_RECEIVE_BUFFER = {"grbl": 128, "grblhal": 1024}
_LONGEST_LINE = 79
_ALARM_PAUSE_S = 0.5
_TICK_S = 0.001
_BOOT_S = 0.01
_OVERRUN_MM = 1.0
"""How far beyond the switch the carriage meets the end of its rail."""


class _SoftResetError(Exception):
    """The board starts over, and keeps its count of steps."""


class _HardResetError(Exception):
    """The board starts from nothing."""


class _ClosedError(Exception):
    """The emulator is to end."""


class _Refused(Exception):  # noqa: N818 - it is an answer, not a mishap
    """A line is answered with `error:N`."""

    def __init__(self, code: int) -> None:
        self.code = code


@dataclass(slots=True)
class _Block:
    """One planned motion."""

    target_mm: float
    speed_mm_per_s: float
    ends_s: float = 0.0


class VirtualGrbl:
    """One board. Start it, open `port`, and stop it with `close`; or use it in a `with`."""

    def __init__(
        self,
        clock: Clock,
        *,
        dialect: Dialect = "grbl",
        settings: Mapping[int, float] | None = None,
        link: Path | None = None,
        distance_mm: float = 40.0,
        single_axis_homing: bool = False,
        reset_on_open: bool = True,
        answer_s: float = 0.0015,
    ) -> None:
        """`distance_mm` is how far the carriage stands from where homing will take it."""
        self._clock = clock
        self._dialect = dialect
        self.settings = {**DEFAULT_SETTINGS, **(settings or {})}
        self._link = link
        self._single_axis_homing = single_axis_homing
        self._reset_on_open = reset_on_open
        self._answer_s = answer_s
        travel, pull_off = self.settings[130], self.settings[27]
        self._homes_positive = not int(self.settings[23]) & 1
        self._home_mm = -pull_off if self._homes_positive else pull_off - travel
        self._switch_mm = 0.0 if self._homes_positive else -travel
        self._away = -1.0 if self._homes_positive else 1.0
        start = self._home_mm + self._away * distance_mm
        self._true = Carriage(start)
        self._counted = Carriage(0.0)
        self._counted_others = 0.0
        self._master = -1
        self._was_open = False
        self._slave_name = ""
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        self._requests: deque[tuple[Callable[[], None], threading.Event]] = deque()
        self._thread = threading.Thread(target=self._run, name="virtual-grbl", daemon=True)
        # The board's state, as in the firmware.
        self._state = "Idle"
        self._homed = False
        self._hold_complete = self._suspended = self._jog_cancel = self._cancel_flag = False
        self._reset_flag = self._status_flag = self._hold_flag = self._start_flag = False
        self._pending_alarm = 0
        self._blocks: deque[_Block] = deque()
        self._received = bytearray()
        self._outgoing: deque[tuple[float, bytes]] = deque()
        self._motion, self._feed, self._absolute, self._inches = 0, 0.0, True, False
        self._wco_counter = self._override_counter = self._last_error = 0
        # Faults.
        self._stuck = self._hanging = self._closing = False
        self._slowness_s = 0.0
        self.lines: deque[str] = deque(maxlen=1000)
        """The lines the board has executed, for tests to look at."""
        self._plug()

    # -- From outside -------------------------------------------------------------------------

    @property
    def port(self) -> str:
        """Where to reach it."""
        return str(self._link) if self._link is not None else self._slave_name

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Switch it off."""
        self._closing = True
        self._wake()
        if self._thread.ident is not None:
            self._thread.join()
        self._unplug()
        os.close(self._wake_read)
        os.close(self._wake_write)
        if self._link is not None:
            self._link.unlink(missing_ok=True)

    def __enter__(self) -> VirtualGrbl:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def position_at(self, moment: float) -> float:
        """Where the carriage truly is (mm): its distance from where homing takes it."""
        return (self._true.position_at(moment) - self._home_mm) * self._away + 0.0

    @property
    def state(self) -> str:
        """What the board would report now."""
        return self._state

    def unplug(self) -> None:
        """Pull the cable; the board is powered by it, so it forgets everything."""
        self._do(self._unplug)

    def plug_in(self) -> None:
        """Put the cable back."""

        def plug() -> None:
            self._plug()
            raise _HardResetError

        self._do(plug)

    def reset(self) -> None:
        """Press the board's reset button, or let its supply dip."""

        def press() -> None:
            raise _HardResetError

        self._do(press)

    def trip_limit(self) -> None:
        """A spike on the wire of the limit switch: a hard-limit alarm out of nothing."""

        def trip() -> None:
            if self._state != "Alarm":
                self._kill()
                self._pending_alarm = 1

        self._do(trip)

    def hang(self) -> None:
        """Neither answer nor act any more, until it is reset by being opened."""

        def hang() -> None:
            self._hanging = True
            self._counted.brake(self._clock.now(), inf)
            self._true.brake(self._clock.now(), inf)

        self._do(hang)

    def say(self, data: bytes) -> None:
        """Put bytes on the wire, whatever they are."""
        self._do(lambda: self._transmit(data))

    def slow_down(self, by_s: float) -> None:
        """Hold back every answer from now on."""

        def slow() -> None:
            self._slowness_s = by_s

        self._do(slow)

    def lose_steps(self, by_mm: float) -> None:
        """Shift the carriage (mm, positive away from its switch) without the board's knowing."""
        self._do(lambda: self._true.shift(by_mm * self._away, self._clock.now()))

    def stick(self) -> None:
        """Block the carriage: the board counts on, and nothing moves."""

        def stick() -> None:
            self._stuck = True
            self._true.brake(self._clock.now(), inf)

        self._do(stick)

    def release(self) -> None:
        """Free the carriage again."""

        def release() -> None:
            self._stuck = False

        self._do(release)

    def press_hold(self) -> None:
        """Press the board's feed-hold button."""

        def press() -> None:
            self._hold_flag = True

        self._do(press)

    def _do(self, action: Callable[[], None]) -> None:
        """Have the board's thread do something, and wait until it has."""
        done = threading.Event()
        self._requests.append((action, done))
        self._wake()
        done.wait(5.0)

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_write, b"x")

    # -- The wire -----------------------------------------------------------------------------

    def _plug(self) -> None:
        master, slave = os.openpty()
        tty.setraw(slave)
        attributes = termios.tcgetattr(slave)
        attributes[3] &= ~termios.ECHO
        termios.tcsetattr(slave, termios.TCSANOW, attributes)
        self._slave_name = os.ttyname(slave)
        os.set_blocking(master, False)
        if self._link is not None:
            self._link.unlink(missing_ok=True)
            self._link.symlink_to(self._slave_name)
        # Once opened and closed, the terminal tells when somebody opens it.
        os.close(slave)
        self._master, self._was_open = master, False

    def _unplug(self) -> None:
        if self._master >= 0:
            os.close(self._master)
            self._master = -1
        if self._link is not None:
            self._link.unlink(missing_ok=True)
        self._outgoing.clear()
        self._received.clear()

    def _wait(self, until: float) -> None:
        """Let time pass, at most to a moment, and take up what comes meanwhile."""
        while True:
            if self._closing:
                raise _ClosedError
            now = self._clock.now()
            if self._outgoing:
                until = min(until, self._outgoing[0][0])
            came = self._poll(max(until - now, 0.0))
            self._flush()
            while self._requests:
                action, done = self._requests.popleft()
                try:
                    action()
                finally:
                    done.set()
            if (came or self._clock.now() >= until) and not self._hanging:
                return
            until = max(until, self._clock.now() + 0.01) if self._hanging else until

    def _poll(self, timeout_s: float) -> bool:
        """Wait for bytes or for a request; whether there were any bytes."""
        poll = select.poll()
        poll.register(self._wake_read, select.POLLIN)
        if self._master >= 0:
            poll.register(self._master, select.POLLIN if self._was_open else 0)
        # A closed terminal reports a hang-up at once, over and over: look at it now and then.
        watched = self._was_open or self._master < 0
        events = dict(poll.poll(timeout_s * 1e3 if watched else 0))
        if not watched:
            if events.get(self._master, 0) & select.POLLHUP:
                self._clock.sleep_until(self._clock.now() + min(timeout_s, 0.002))
            elif self._master >= 0:
                self._was_open = True
                if self._reset_on_open:
                    raise _HardResetError
        if events.get(self._wake_read, 0):
            os.read(self._wake_read, 4096)
        happened = events.get(self._master, 0) if self._master >= 0 else 0
        data = b""
        if self._was_open and happened & select.POLLIN:
            with contextlib.suppress(OSError):
                data = os.read(self._master, 4096)
        if self._was_open and happened & select.POLLHUP:
            self._was_open = False
        if not self._hanging:
            for byte in data:
                self._receive(byte)
        return bool(data)

    def _receive(self, byte: int) -> None:
        """What the firmware does in its receive interrupt."""
        if byte == 0x18:
            self._kill()
            self._reset_flag = True
        elif byte == ord("?"):
            self._status_flag = True
        elif byte == ord("!"):
            self._hold_flag = True
        elif byte == ord("~"):
            self._start_flag = True
        elif byte == 0x85:
            self._cancel_flag = self._state == "Jog"
        elif byte < 0x80 and len(self._received) < _RECEIVE_BUFFER[self._dialect] - 1:
            self._received.append(byte)

    def _say(self, line: str) -> None:
        self._transmit(line.encode("ascii") + b"\r\n")

    def _transmit(self, data: bytes) -> None:
        self._outgoing.append((self._clock.now() + self._slowness_s, data))
        self._flush()

    def _flush(self) -> None:
        while self._outgoing and self._outgoing[0][0] <= self._clock.now():
            _, data = self._outgoing.popleft()
            if self._master < 0 or not self._was_open:
                continue
            try:
                os.write(self._master, data)
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EIO):
                    raise

    # -- The firmware's main program ----------------------------------------------------------

    def _run(self) -> None:
        reset: type[Exception] = _HardResetError
        while True:
            try:
                self._start_over(hard=reset is _HardResetError)
                self._main_loop()
            except _ClosedError:
                return
            except (_SoftResetError, _HardResetError) as cause:
                reset = type(cause)

    def _start_over(self, *, hard: bool) -> None:
        now = self._clock.now()
        self._hanging = False
        self._received.clear()
        self._blocks.clear()
        if hard:
            self._outgoing.clear()
            self._true.brake(now, inf)
            self._counted.put(0.0, now)
            self._counted_others = 0.0
            # grblHAL locks itself when it starts only if it is told to, by another bit of $22.
            locking = 1 if self._dialect == "grbl" else 4
            self._state = "Alarm" if int(self.settings[22]) & locking else "Idle"
            self._homed = False
            self._pause(_BOOT_S)
        self._hold_complete = self._suspended = self._jog_cancel = self._cancel_flag = False
        self._reset_flag = self._status_flag = self._hold_flag = self._start_flag = False
        self._pending_alarm = 0
        self._motion, self._feed, self._absolute, self._inches = 0, 0.0, True, False
        self._wco_counter = self._override_counter = self._last_error = 0
        self._say(_BANNERS[self._dialect])
        if self.settings[21] and self._switch_is_closed():
            self._state = "Alarm"
            self._say("[MSG:Check Limits]")
        if self._state == "Alarm":
            self._say("[MSG:'$H'|'$X' to unlock]")
        else:
            self._state = "Idle"

    def _main_loop(self) -> None:
        while True:
            line = self._next_line()
            self.lines.append(line)
            self._pause(self._answer_s)
            try:
                self._execute(line)
                self._last_error = 0
                answer = "ok"
            except _Refused as refusal:
                self._last_error = refusal.code
                answer = f"error:{refusal.code}"
            except _SoftResetError:
                if self._dialect == "grbl":
                    self._say("ok")  # the firmware confirms even what it has just dropped
                raise
            self._say(answer)

    def _next_line(self) -> str:
        while True:
            for end, byte in enumerate(self._received):
                if byte in b"\r\n":
                    raw = bytes(self._received[:end])
                    del self._received[: end + 1]
                    return raw.decode("ascii", "replace")
            self._checkpoint()
            self._wait(self._clock.now() + self._nap())
            self._checkpoint()

    def _pause(self, for_s: float) -> None:
        """Be busy for a while: bytes are taken up, and not acted upon."""
        until = self._clock.now() + for_s
        while self._clock.now() < until:
            self._wait(until)

    def _nap(self) -> float:
        """How long nothing has to be looked at."""
        return _TICK_S if self._blocks or self._state in ("Run", "Jog", "Hold") else 0.05

    def _checkpoint(self) -> None:
        """Where the firmware acts upon what has come: protocol_execute_realtime."""
        self._act()
        while self._suspended:
            self._wait(self._clock.now() + _TICK_S)
            self._act()

    def _act(self) -> None:
        self._look_at_motion()
        if self._pending_alarm:
            self._raise_alarm()
        if self._reset_flag:
            raise _SoftResetError
        if self._status_flag:
            self._status_flag = False
            self._report_status()
        if self._hold_flag or (self._cancel_flag and self._state == "Jog"):
            self._hold_flag = self._start_flag = False
            self._begin_hold()
        self._cancel_flag = False
        if self._start_flag:
            self._start_flag = False
            if self._state == "Hold" and self._hold_complete:
                self._resume()

    def _look_at_motion(self) -> None:
        now = self._clock.now()
        while self._blocks and self._blocks[0].ends_s <= now and not self._suspended:
            self._blocks.popleft()
        standing = self._counted.still_at <= now
        if self._state in ("Run", "Jog") and standing and not self._blocks:
            self._state = "Idle"
        if self._suspended and standing and not self._hold_complete:
            self._hold_complete = True
            self._round_to_steps(now)
            if self._jog_cancel:
                self._blocks.clear()
                self._suspended = self._jog_cancel = self._hold_complete = False
                self._state = "Idle"
        if self.settings[21] and self._state in ("Run", "Jog") and self._switch_is_closed():
            self._kill()
            self._pending_alarm = 1

    def _begin_hold(self) -> None:
        if self._state == "Alarm":
            return
        if self._state in ("Run", "Jog"):
            now, rate = self._clock.now(), self.settings[120]
            self._counted.brake(now, rate)
            self._true.brake(now, inf if self._stuck else rate)
            self._hold_complete = False
            self._jog_cancel = self._state == "Jog"
        elif self._state == "Idle":
            self._hold_complete = True
        if self._state != "Jog":
            self._state = "Hold"
        self._suspended = True

    def _resume(self) -> None:
        self._suspended = self._hold_complete = False
        if self._dialect == "grblhal":
            self._say("[MSG:]")
        blocks, self._blocks = list(self._blocks), deque()
        self._state = "Idle"
        for block in blocks:
            self._plan(block)

    def _kill(self) -> None:
        """Cut the step pulses: mc_reset, called in interrupts."""
        now = self._clock.now()
        moving = self._state in ("Run", "Jog") or (self._suspended and not self._hold_complete)
        if self._state == "Home":
            self._pending_alarm = self._pending_alarm or 6
        elif moving:
            self._pending_alarm = 3
        if moving or self._state == "Home":
            self._counted.brake(now, inf)
            self._round_to_steps(now)
            self._true.brake(now, inf)
            self._blocks.clear()
            self._suspended = False

    def _raise_alarm(self) -> None:
        code = self._pending_alarm
        self._state = "Alarm"
        self._homed = False
        self._suspended = False
        self._say(f"ALARM:{code}")
        if self._dialect == "grbl":
            self._pause(_ALARM_PAUSE_S)
        if code in (1, 2):
            self._reset_flag = False
            self._say("[MSG:Reset to continue]")
            while not self._reset_flag:
                self._wait(self._clock.now() + 0.05)
                if self._dialect == "grblhal":
                    self._answer_while_locked()
        self._pending_alarm = 0

    def _answer_while_locked(self) -> None:
        """Where GRBL is deaf, grblHAL reports, and refuses lines."""
        if self._status_flag:
            self._status_flag = False
            self._report_status()
        if b"\n" in self._received:
            self._received.clear()
            self._say("error:79")

    # -- Lines --------------------------------------------------------------------------------

    def _execute(self, raw: str) -> None:
        line = re.sub(r"\([^)]*\)?|;.*|[\s/]", "", raw).upper()
        if len(line) > _LONGEST_LINE:
            raise _Refused(11)
        if not line:
            return
        if line.startswith("$"):
            self._execute_system(line)
        elif self._state in ("Alarm", "Jog"):
            raise _Refused(9)
        elif self._last_error and self._dialect == "grblhal":
            raise _Refused(self._last_error)  # until an empty line or a `$` command
        else:
            self._execute_gcode(line, jog=False)

    def _execute_system(self, line: str) -> None:
        if line == "$":
            self._say("[HLP:$$ $# $G $I $N $x=val $Nx=line $J=line $SLP $C $X $H ~ ! ? ctrl-x]")
        elif line == "$$":
            if self._state in ("Run", "Hold"):
                raise _Refused(8)
            for number in sorted(self.settings):
                self._say(f"${number}={self._shown(number)}")
        elif line == "$G":
            self._say(f"[GC:G{self._motion} G54 G17 G21 G90 G94 M5 M9 T0 F{self._feed:.0f} S0]")
        elif line == "$X":
            if self._state == "Alarm":
                self._say("[MSG:Caution: Unlocked]")
                self._state = "Idle"
        elif line.startswith("$J"):
            if self._state not in ("Idle", "Jog"):
                raise _Refused(8)
            if line[2:3] != "=":
                raise _Refused(3)
            self._execute_gcode(line[3:], jog=True)
        elif self._state not in ("Idle", "Alarm"):
            raise _Refused(8)
        elif line == "$I":
            self._say_build()
        elif line.startswith("$H"):
            self._execute_homing(line[2:])
        elif setting := re.fullmatch(r"\$(\d+)=(-?\d*\.?\d+)", line):
            self._store(int(setting[1]), float(setting[2]))
        else:
            raise _Refused(3 if self._dialect == "grblhal" or re.match(r"\$\d", line) else 2)

    def _say_build(self) -> None:
        option = "H" if self._single_axis_homing else ""
        if self._dialect == "grbl":
            self._say("[VER:1.1h.20190830:]")
            self._say(f"[OPT:V{option},15,128]")
        else:
            self._say("[VER:1.1f.20260817:]")
            self._say(f"[OPT:VNM{option}L+,100,1024,3,0]")
            self._say("[AXS:3:XYZ]")
            self._say("[NEWOPT:ENUMS,RT+,HOME,TC,SED]")
            self._say("[FIRMWARE:grblHAL]")

    def _shown(self, number: int) -> str:
        value = self.settings[number]
        if self._dialect == "grblhal" and 100 <= number < 110:
            return f"{value:.5f}"
        return f"{value:.0f}" if number in _WHOLE else f"{value:.3f}"

    def _store(self, number: int, value: float) -> None:
        if number not in self.settings:
            raise _Refused(3 if self._dialect == "grbl" else 53)
        if value < 0:
            raise _Refused(4)
        if number == 20 and value and not self.settings[22]:
            raise _Refused(10)
        self.settings[number] = value

    def _execute_gcode(self, line: str, *, jog: bool) -> None:
        words = self._words(line)
        axis: float | None = None
        target_in_machine, dwell, dwell_s, others = False, False, None, False
        absolute, inches, motion, feed = self._absolute, self._inches, self._motion, self._feed
        feed = 0.0 if jog else feed
        moves = 0
        for letter, value in words:
            if letter == "G":
                code = round(value * 10)
                if int(value) in (0, 1, 4) and code % 10:
                    raise _Refused(23)
                if code in (0, 10):
                    motion, moves = code // 10, moves + 1
                elif code == 40:
                    dwell = True
                elif code in (200, 210):
                    inches = code == 200
                elif code in (900, 910):
                    absolute = code == 900
                elif code == 530:
                    target_in_machine = True
                elif code not in (170, 400, 490, 540, 610, 800, 940):
                    raise _Refused(20)
                if jog and code in (0, 10, 170, 540, 940):
                    raise _Refused(16)
            elif letter == "X":
                axis = value
            elif letter in "YZ":
                others = True
            elif letter == "F":
                feed = value * (25.4 if inches else 1.0)
            elif letter == "P":
                dwell_s = value
            elif letter not in "MNST":
                raise _Refused(20)
        if moves > 1:
            raise _Refused(24)
        if jog and feed <= 0:
            raise _Refused(22)
        if dwell:
            if dwell_s is None:
                raise _Refused(28)
            self._dwell(dwell_s)
            return
        if not jog:
            self._absolute, self._inches, self._motion = absolute, inches, motion
            self._feed = feed
        if axis is None:
            if jog and not others:
                raise _Refused(26)
            return
        if (motion == 1 or jog) and feed <= 0:
            raise _Refused(22)
        target = axis * (25.4 if inches else 1.0)
        if not absolute and not target_in_machine:
            target += self._planned_mm()
        speed = self.settings[110] / 60
        self._go(target, min(speed, feed / 60) if motion == 1 or jog else speed, jog=jog)

    def _words(self, line: str) -> list[tuple[str, float]]:
        words, at = [], 0
        while at < len(line):
            match = _WORD.match(line, at)
            if match is None:
                raise _Refused(1)
            try:
                words.append((match[1], float(match[2])))
            except ValueError:
                raise _Refused(2) from None
            at = match.end()
        return words

    def _planned_mm(self) -> float:
        """Where the last planned motion ends."""
        return self._blocks[-1].target_mm if self._blocks else self._mpos(self._clock.now())

    def _go(self, target_mm: float, speed_mm_per_s: float, *, jog: bool) -> None:
        if self.settings[20] and self._is_beyond(target_mm):
            if jog:
                raise _Refused(15)
            self._break_off()
        steps = self.settings[100]
        block = _Block(round(target_mm * steps) / steps, speed_mm_per_s)
        if abs(block.target_mm - self._planned_mm()) < 0.5 / steps:
            return
        while len(self._blocks) >= 15:
            self._wait(self._clock.now() + _TICK_S)
            self._checkpoint()
        self._plan(block)
        self._state = "Jog" if jog else "Run"

    def _is_beyond(self, target_mm: float) -> bool:
        travel, pull_off = self.settings[130], self.settings[27]
        if self._dialect == "grblhal":
            low, high = pull_off - travel, -pull_off
            return self._homed and not low - 1e-6 <= target_mm <= high + 1e-6
        return not -travel <= target_mm <= 0

    def _break_off(self) -> None:
        """A soft limit: come to a stand, then lock."""
        if self._state == "Run":
            self._begin_hold()
            while self._suspended and not self._hold_complete:
                self._wait(self._clock.now() + _TICK_S)
                self._act()
            self._suspended = False
        self._blocks.clear()
        self._pending_alarm = 2
        self._act()

    def _plan(self, block: _Block) -> None:
        begin = max(self._clock.now() + 0.002, self._counted.still_at)
        stage = self._stage(block.speed_mm_per_s)
        before = self._counted.position_at(begin)
        self._counted.move(block.target_mm, begin, stage)
        block.ends_s = self._counted.still_at
        self._blocks.append(block)
        self._state = "Run"
        if not self._stuck:
            reached = self._true.position_at(begin) + block.target_mm - before
            self._true.move(self._within_rail(reached), begin, stage)

    def _within_rail(self, position_mm: float) -> float:
        low, high = -self.settings[130], 0.0
        return min(max(position_mm, low - _OVERRUN_MM), high + _OVERRUN_MM)

    def _stage(self, speed_mm_per_s: float) -> StageDescription:
        return StageDescription(
            name="virtual-grbl",
            travel_mm=self.settings[130],
            step_mm=1 / self.settings[100],
            speed_mm_per_s=speed_mm_per_s,
            acceleration_mm_per_s2=self.settings[120],
            latency_s=0.0,
            settling_s=0.0,
        )

    def _dwell(self, seconds: float) -> None:
        while self._blocks or self._state == "Run":
            self._wait(min([self._clock.now() + _TICK_S, *(b.ends_s for b in self._blocks)]))
            self._checkpoint()
        until = self._clock.now() + (0.05 if seconds > 0 else 0.0) + seconds
        while self._clock.now() < until:
            self._wait(until)
            self._checkpoint()

    # -- Homing -------------------------------------------------------------------------------

    def _execute_homing(self, axes: str) -> None:
        if not self.settings[22]:
            raise _Refused(5)
        self._state = "Home"
        if axes and not (self._single_axis_homing and axes in ("X", "Y", "Z")):
            if self._dialect == "grblhal":
                self._state = "Idle"
                raise _Refused(5)
            raise _Refused(3)  # and GRBL stays in this state until it is reset
        if self._dialect == "grblhal":
            self._report_status()
        if axes in ("", "X"):
            self._seek_switch()
            now = self._clock.now()
            self._counted.put(self._home_mm, now)
            self._round_to_steps(now)
        if not axes:
            self._counted_others = self._home_mm
        self._homed = True
        self._act()  # what was asked meanwhile is answered while the state is still Home
        self._state = "Idle"
        if self._dialect == "grblhal":
            self._say("[MSG:]")

    def _seek_switch(self) -> None:
        """Onto the switch, off it, slowly onto it again, and off it to stay."""
        seek, feed, pull_off = self.settings[25] / 60, self.settings[24] / 60, self.settings[27]
        way = abs(self._true.position_at(self._clock.now()) - self._switch_mm)
        if self._stuck:
            self._ride(self._switch_mm, 1.5 * self.settings[130] / seek)
        else:
            self._ride(self._switch_mm, way / seek)
        off = self._switch_mm + self._away * pull_off
        if not self._switch_is_closed():
            self._pending_alarm = 9
            self._reset_flag = True
            self._act()
        for target, speed in ((off, seek), (self._switch_mm, feed), (off, seek)):
            self._pause_homing(self.settings[26] / 1e3)
            self._ride(target, pull_off / speed)
        self._pause_homing(self.settings[26] / 1e3)

    def _ride(self, target_mm: float, time_s: float) -> None:
        now = self._clock.now()
        speed = abs(target_mm - self._true.position_at(now)) / time_s if time_s > 0 else 0.0
        if speed > 0 and not self._stuck:
            flat = replace(self._stage(speed), acceleration_mm_per_s2=inf)
            self._true.move(target_mm, now, flat)
        self._pause_homing(time_s)

    def _pause_homing(self, for_s: float) -> None:
        """Nothing but a reset is acted upon in homing; grblHAL reports as well."""
        until = self._clock.now() + for_s
        while self._clock.now() < until:
            self._wait(until)
            if self._reset_flag or self._pending_alarm:
                self._reset_flag = True
                self._act()
            if self._dialect == "grblhal" and self._status_flag:
                self._status_flag = False
                self._report_status()

    def _switch_is_closed(self) -> bool:
        position = self._true.position_at(self._clock.now())
        return (position - self._switch_mm) * self._away <= 1e-9

    # -- Reports ------------------------------------------------------------------------------

    def _mpos(self, now: float) -> float:
        steps = self.settings[100]
        return round(self._counted.position_at(now) * steps) / steps

    def _round_to_steps(self, now: float) -> None:
        self._counted.put(self._mpos(now), now)

    def _report_status(self) -> None:
        now = self._clock.now()
        state = self._state
        if state == "Hold":
            state += ":0" if self._hold_complete else ":1"
        others = self._counted_others
        fields = [state, f"MPos:{self._mpos(now):.3f},{others:.3f},{others:.3f}"]
        if self._dialect == "grblhal":
            fields.append(f"Bf:{100 - len(self._blocks)},1023")
        fields.append(f"FS:{abs(self._counted.speed_at(now)) * 60:.0f},0")
        if self._switch_is_closed():
            fields.append("Pn:X")
        busy = self._state in ("Home", "Run", "Hold", "Jog")
        overrides_are_due = self._override_counter == 0
        if self._dialect == "grblhal" and overrides_are_due:
            self._wco_counter = max(self._wco_counter, 1)
        if self._wco_counter > 0:
            self._wco_counter -= 1
        else:
            self._wco_counter = 29 if busy else 9
            if overrides_are_due:
                self._override_counter = 1
            fields.append("WCO:0.000,0.000,0.000")
        if self._override_counter > 0:
            self._override_counter -= 1
        else:
            self._override_counter = 19 if busy else 9
            fields.append("Ov:100,100,100" + ("|A:" if self._dialect == "grblhal" else ""))
        self._say(f"<{'|'.join(fields)}>")
