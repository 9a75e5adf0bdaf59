"""A Zaber device that is not there: it answers on a pseudo-terminal and moves a computed carriage.

It knows the part of the ASCII protocol that positioning needs: settings, moves, homing, flags,
alerts and checksums. What it counts (`pos`) and where the carriage truly is are two things, as on
any stage without an encoder. It has a supply of its own: pulling the cable does not stop it.
Faults come on demand.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import select
import threading
import tty
from collections import deque
from collections.abc import Callable, Mapping
from math import inf
from pathlib import Path

from macontrol.hal import Clock, StageDescription
from macontrol.sim.carriage import Carriage

DEFAULT_SETTINGS: dict[str, float] = {
    **{"accel": 205, "comm.alert": 0, "comm.checksum": 0, "comm.address": 1},
    **{"deviceid": 50081, "limit.approach.maxspeed": 209715, "limit.max": 305381, "limit.min": 0},
    **{"maxspeed": 209715, "resolution": 64, "system.access": 1, "system.axiscount": 1},
    **{"system.serial": 12345, "system.voltage": 48.0, "version": 7.38, "version.build": 12345},
}
"""A rail of 151 mm at 0.49609375 µm per microstep."""

MICROSTEP_MM = 0.49609375e-3

_DEVICE_WIDE = re.compile(r"comm\.|deviceid|system\.|version|peripheral")
_READ_ONLY = frozenset(
    {"deviceid", "system.axiscount", "system.serial", "system.voltage", "version", "version.build"}
)
_SPEED_UNIT = 1.6384
_COMMAND = re.compile(r"(?:(\d{1,2})(?: (\d)(?: (\d{1,2}|--))?)?)? ?(.*)", re.DOTALL)
_RANK = ("FF", "FE", "FS", "WL", "WV", "WT", "WS", "WM", "WR", "WH", "NC", "NI")
_OVERRUN_MM = 1.0
"""How far beyond both ends of its travel the carriage meets something hard."""
_LONGEST_LINE = 120


class _Refused(Exception):  # noqa: N818 - it is an answer, not a mishap
    """A command is answered with `RJ` and a reason."""


class VirtualZaber:
    """One device with one axis. Start it, open `port`, stop it with `close`; or use a `with`."""

    def __init__(
        self,
        clock: Clock,
        *,
        settings: Mapping[str, float] | None = None,
        microstep_mm: float = MICROSTEP_MM,
        link: Path | None = None,
        distance_mm: float = 40.0,
        answer_s: float = 0.001,
    ) -> None:
        """`distance_mm` is how far the carriage stands from where homing will take it."""
        self._clock = clock
        self.settings: dict[str, float] = {**DEFAULT_SETTINGS, **(settings or {})}
        self._microstep_mm = microstep_mm
        self._link = link
        self._answer_s = answer_s
        self._true = Carriage(distance_mm)
        self._counted = Carriage(0.0)
        self._flags = {"WR"}
        self._moving = self._homing = False
        self._stuck = self._hanging = self._closing = False
        self._slowness_s = 0.0
        self._received = bytearray()
        self._outgoing: deque[tuple[float, bytes]] = deque()
        self._requests: deque[tuple[Callable[[], None], threading.Event]] = deque()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        self._thread = threading.Thread(target=self._run, name="virtual-zaber", daemon=True)
        self._master = -1
        self._slave_name = ""
        self.lines: deque[str] = deque(maxlen=1000)
        """The commands the device has taken, for tests to look at."""
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

    def __enter__(self) -> VirtualZaber:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def position_at(self, moment: float) -> float:
        """Where the carriage truly is (mm): its distance from where homing takes it."""
        return self._true.position_at(moment) + 0.0

    @property
    def flags(self) -> frozenset[str]:
        """The flags that are up now."""
        return frozenset(self._flags)

    def unplug(self) -> None:
        """Pull the cable. The device goes on with what it does."""
        self._do(self._unplug)

    def plug_in(self) -> None:
        """Put the cable back."""
        self._do(self._plug)

    def reset(self) -> None:
        """Let its supply dip: it starts anew and does not know where it is."""
        self._do(self._start_over)

    def hang(self) -> None:
        """Stand, and neither answer nor act any more until the supply dips."""

        def hang() -> None:
            self._halt()
            self._hanging = True

        self._do(hang)

    def stall(self) -> None:
        """Block the carriage: a motion, this or the next, ends where it is, with FS up."""

        def stall() -> None:
            self._stuck = True
            if self._moving:
                self._stop_stalled()

        self._do(stall)

    def release(self) -> None:
        """Free the carriage again."""

        def release() -> None:
            self._stuck = False

        self._do(release)

    def raise_flag(self, flag: str) -> None:
        """Put a flag up, as an overheated device does."""
        self._do(lambda: self._flags.add(flag))

    def interrupt(self, target_microsteps: int) -> None:
        """Send it elsewhere, as another program on the same chain might."""
        self._do(lambda: self._move(target_microsteps * self._microstep_mm))

    def say(self, data: bytes) -> None:
        """Put bytes on the wire, whatever they are."""
        self._do(lambda: self._transmit(data))

    def slow_down(self, by_s: float) -> None:
        """Hold back every answer from now on."""

        def slow() -> None:
            self._slowness_s = by_s

        self._do(slow)

    def lose_steps(self, by_mm: float) -> None:
        """Shift the carriage without the device's knowing it."""
        self._do(lambda: self._true.shift(by_mm, self._clock.now()))

    def _do(self, action: Callable[[], None]) -> None:
        """Have the device's thread do something, and wait until it has."""
        done = threading.Event()
        self._requests.append((action, done))
        self._wake()
        done.wait(5.0)

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_write, b"x")

    # -- The wire -----------------------------------------------------------------------------

    def _plug(self) -> None:
        self._unplug()
        self._master, slave = os.openpty()
        tty.setraw(slave)
        self._slave_name = os.ttyname(slave)
        os.set_blocking(self._master, False)
        # Not held open here: what one user has set (as its exclusive use) must end with him.
        os.close(slave)
        if self._link is not None:
            self._link.unlink(missing_ok=True)
            self._link.symlink_to(self._slave_name)

    def _unplug(self) -> None:
        if self._master >= 0:
            os.close(self._master)
            self._master = -1
        if self._link is not None:
            self._link.unlink(missing_ok=True)
        self._outgoing.clear()
        self._received.clear()

    def _run(self) -> None:
        while not self._closing:
            self._receive(self._poll())
            while self._requests:
                action, done = self._requests.popleft()
                try:
                    action()
                finally:
                    done.set()
            if not self._hanging:
                self._look_at_motion()
                self._take_commands()
            self._flush()

    def _poll(self) -> bytes:
        """Wait for bytes, a request, or the next thing that is due; what came."""
        now = self._clock.now()
        due = min(self._outgoing[0][0] if self._outgoing else inf, now + 0.05)
        if self._moving:
            due = min(due, max(self._counted.still_at, self._true.still_at))
        timeout_s = max(due - now, 0.0)
        poll = select.poll()
        poll.register(self._wake_read, select.POLLIN)
        if self._master >= 0:
            poll.register(self._master, select.POLLIN)
        # Rounded up: a wait that is too short by a hair would be repeated over and over.
        events = dict(poll.poll(int(timeout_s * 1e3) + 1 if timeout_s > 0 else 0))
        if events.get(self._wake_read, 0):
            os.read(self._wake_read, 4096)
        happened = events.get(self._master, 0) if self._master >= 0 else 0
        if happened & select.POLLIN:
            with contextlib.suppress(OSError):
                return os.read(self._master, 4096)
        elif happened & select.POLLHUP:
            # Nobody has it open, which is reported at once, over and over: look now and then.
            self._received.clear()
            self._clock.sleep_until(self._clock.now() + 0.002)
        return b""

    def _receive(self, data: bytes) -> None:
        if not self._hanging:
            self._received += data

    def _take_commands(self) -> None:
        while (end := self._received.find(b"\n")) >= 0:
            line = bytes(self._received[:end]).rstrip(b"\r")
            del self._received[: end + 1]
            start = line.rfind(b"/")
            if start >= 0 and len(line) - start <= _LONGEST_LINE:
                self._take(line[start + 1 :])
        if len(self._received) > 4 * _LONGEST_LINE:
            self._received.clear()

    def _transmit(self, data: bytes, delay_s: float = 0.0) -> None:
        due = self._clock.now() + self._slowness_s + delay_s
        if self._outgoing:
            due = max(due, self._outgoing[-1][0])
        self._outgoing.append((due, data))

    def _flush(self) -> None:
        while self._outgoing and self._outgoing[0][0] <= self._clock.now():
            _, data = self._outgoing.popleft()
            if self._master < 0 or self._hanging:
                continue
            try:
                os.write(self._master, data)
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EIO):
                    raise

    # -- Commands -----------------------------------------------------------------------------

    def _take(self, body: bytes) -> None:
        """Take up what stood after the slash: a wrong checksum, or another's address, is passed."""
        if body[-3:-2] == b":":
            body, told = body[:-3], body[-2:]
            if b"%02X" % (-sum(body) & 0xFF) != told.upper():
                return
        match = _COMMAND.fullmatch(body.decode("ascii", "replace"))
        if match is None:
            return
        device, axis, number = int(match[1] or 0), int(match[2] or 0), match[3]
        text = " ".join(match[4].split())
        address = int(self.settings["comm.address"])
        if device not in (0, address):
            return
        self.lines.append(text)
        try:
            if axis > self.settings["system.axiscount"]:
                raise _Refused("BADAXIS")
            verdict, data = "OK", self._execute(text, axis)
        except _Refused as refusal:
            verdict, data = "RJ", str(refusal)
        if number == "--":
            return
        echo = "" if number is None else f"{int(number):02d} "
        self._say(f"@{address:02d} {axis} {echo}{verdict} {self._status()} {data}")

    def _say(self, line: str) -> None:
        body = line[1:].encode("ascii")
        tail = b":%02X" % (-sum(body) & 0xFF) if self.settings["comm.checksum"] else b""
        self._transmit(line[:1].encode("ascii") + body + tail + b"\r\n", self._answer_s)

    def _status(self) -> str:
        shown = [flag for flag in _RANK if flag in self._flags]
        shown += sorted(self._flags - set(_RANK))
        return f"{'BUSY' if self._moving else 'IDLE'} {shown[0] if shown else '--'}"

    def _execute(self, text: str, axis: int) -> str:
        verb, _, rest = text.partition(" ")
        if verb == "":
            return "0"
        if verb == "get":
            return self._get(rest, axis)
        if verb == "set":
            name, _, value = rest.partition(" ")
            self._set(name, _number(value), axis)
        elif verb == "move":
            self._execute_move(rest)
        elif verb == "home":
            self._home()
        elif verb in ("stop", "estop"):
            self._stop(inf if verb == "estop" else self._acceleration())
        elif verb == "warnings":
            return self._tell_warnings(clear=rest == "clear")
        elif text == "system reset":
            self._start_over()
        else:
            raise _Refused("BADCOMMAND")
        return "0"

    def _get(self, name: str, axis: int) -> str:
        if name == "pos":
            return str(self._pos())
        if name not in self.settings:
            raise _Refused("BADCOMMAND")
        if axis and _DEVICE_WIDE.match(name):
            raise _Refused("DEVICEONLY")
        value = self.settings[name]
        if name == "version":
            return f"{value:.2f}"
        return f"{value:.1f}" if name == "system.voltage" else f"{value:.0f}"

    def _set(self, name: str, value: float, axis: int) -> None:
        if name == "pos":
            self._counted.put(value * self._microstep_mm, self._clock.now())
            return
        if name not in self.settings or name in _READ_ONLY:
            raise _Refused("BADCOMMAND")
        if axis and _DEVICE_WIDE.match(name):
            raise _Refused("DEVICEONLY")
        if (name == "maxspeed" and value <= 0) or (name.startswith("comm.") and value < 0):
            raise _Refused("BADDATA")
        self.settings[name] = value

    def _execute_move(self, rest: str) -> None:
        how, *numbers = rest.split()
        low, high = self.settings["limit.min"], self.settings["limit.max"]
        if how in ("min", "max"):
            target = low if how == "min" else high
        elif how in ("abs", "rel") and numbers:
            target = _number(numbers.pop(0)) + (self._pos() if how == "rel" else 0)
        else:
            raise _Refused("BADCOMMAND")
        if not low <= target <= high or len(numbers) > 2:
            raise _Refused("BADDATA")
        speed = _number(numbers[0]) if numbers else 0.0
        acceleration = _number(numbers[1]) if len(numbers) > 1 else None
        if speed < 0:
            raise _Refused("BADDATA")
        self._move(round(target) * self._microstep_mm, speed, acceleration)

    def _tell_warnings(self, *, clear: bool) -> str:
        flags = [flag for flag in _RANK if flag in self._flags]
        flags += sorted(self._flags - set(_RANK))
        if clear:
            self._flags &= {"WR", "WH", "WT", "WV"}
        return " ".join([f"{len(flags):02d}", *flags])

    # -- Motion -------------------------------------------------------------------------------

    def _pos(self) -> int:
        return round(self._counted.position_at(self._clock.now()) / self._microstep_mm)

    def _acceleration(self, data: float | None = None) -> float:
        value = self.settings["accel"] if data is None else data
        return inf if value == 0 else value * 1e4 / _SPEED_UNIT * self._microstep_mm

    def _profile(self, speed_data: float, acceleration: float | None) -> StageDescription:
        return StageDescription(
            name="virtual",
            travel_mm=inf,
            step_mm=self._microstep_mm,
            speed_mm_per_s=speed_data / _SPEED_UNIT * self._microstep_mm,
            acceleration_mm_per_s2=self._acceleration(acceleration),
            latency_s=0.0,
            settling_s=0.0,
        )

    def _move(self, to_mm: float, speed_data: float = 0, acceleration: float | None = None) -> None:
        begin = self._make_way()
        by = to_mm - self._counted.position_at(begin)
        profile = self._profile(speed_data or self.settings["maxspeed"], acceleration)
        self._counted.move(to_mm, begin, profile)
        self._push(self._true.position_at(begin) + by, begin, profile)

    def _home(self) -> None:
        begin = self._make_way()
        profile = self._profile(self.settings["limit.approach.maxspeed"], None)
        here = self._counted.position_at(begin)
        self._counted.move(here - self._true.position_at(begin), begin, profile)
        self._homing = True
        self._push(0.0, begin, profile)

    def _make_way(self) -> float:
        """Come to a stand if it moves, and say when that is."""
        now = self._clock.now()
        if self._moving:
            self._flags.add("NI")
            self._counted.brake(now, self._acceleration())
            self._true.brake(now, self._acceleration())
        self._homing = False
        return max(now, self._counted.still_at)

    def _push(self, to_mm: float, begin: float, profile: StageDescription) -> None:
        """Move the true carriage, as far as there is rail."""
        self._moving = True
        self._flags -= {"FS"}
        high = self.settings["limit.max"] * self._microstep_mm + _OVERRUN_MM
        self._true.move(min(max(to_mm, -_OVERRUN_MM), high), begin, profile)
        if self._stuck:
            self._stop_stalled()

    def _look_at_motion(self) -> None:
        now = self._clock.now()
        if self._moving and self._counted.still_at <= now:
            self._moving = False
            if self._homing:
                self._homing = False
                self._counted.put(0.0, now)
                self._true.put(0.0, now)
                self._flags -= {"WR", "WH", "WL", "WM", "WS", "NI"}
            self._alert()

    def _stop(self, acceleration: float) -> None:
        if self._moving:
            now = self._clock.now()
            self._counted.brake(now, acceleration)
            self._true.brake(now, acceleration)
            self._round_to_steps()
            self._homing = False
            self._flags.add("NI")

    def _round_to_steps(self) -> None:
        """A motor ends on a step, wherever the braking is over."""
        end = self._counted.still_at
        stand = self._counted.position_at(end)
        whole = round(stand / self._microstep_mm) * self._microstep_mm
        self._counted.put(whole, end)
        self._true.put(self._true.position_at(end) + whole - stand, end)

    def _stop_stalled(self) -> None:
        self._halt()
        self._flags.add("FS")
        self._alert()

    def _halt(self) -> None:
        now = self._clock.now()
        self._counted.brake(now, inf)
        self._true.brake(now, inf)
        self._round_to_steps()
        self._moving = self._homing = False

    def _alert(self) -> None:
        if self.settings["comm.alert"]:
            self._say(f"!{int(self.settings['comm.address']):02d} 1 {self._status()}")

    def _start_over(self) -> None:
        self._halt()
        self._hanging = False
        self._received.clear()
        self._outgoing.clear()
        self._counted.put(0.0, self._clock.now())
        self._flags = {"WR"}


def _number(text: str) -> float:
    if not re.fullmatch(r"-?\d{1,10}(\.\d{1,9})?", text):
        raise _Refused("BADDATA")
    return float(text)
