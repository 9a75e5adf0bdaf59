"""An emulated Zaber device: its commands, its motion, and its faults.

It implements the part of the ASCII protocol that positioning needs: settings, moves, homing,
flags, alerts and checksums. It has its own power supply, so that a disconnected cable does not
stop it. Faults are injected by methods.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import ceil, floor, inf
from pathlib import Path

from macontrol.config import Config
from macontrol.config.model.motion import Trapezoid
from macontrol.hal import Clock
from macontrol.sim.bench.boards.axis import CountedAxis
from macontrol.sim.bench.boards.device import VirtualDevice, in_own_thread

DEFAULT_SETTINGS: dict[str, float] = {
    **{"accel": 205, "comm.alert": 0, "comm.checksum": 0, "comm.address": 1},
    **{"deviceid": 50081, "limit.approach.maxspeed": 209715, "limit.max": 305381, "limit.min": 0},
    **{"maxspeed": 209715, "resolution": 64, "system.access": 1, "system.axiscount": 1},
    **{"system.serial": 12345, "system.voltage": 48.0, "version": 7.38, "version.build": 12345},
}
"""A rail of 151 mm at 0.49609375 µm per microstep."""

MICROSTEP_MM = 0.49609375e-3
GUIDE_TRAVEL_MM = 150.0
"""The travel of the Zaber stage of docs/build-a-bench.md."""

_DEVICE_WIDE = re.compile(r"comm\.|deviceid|system\.|version|peripheral")
_READ_ONLY = frozenset(
    {"deviceid", "system.axiscount", "system.serial", "system.voltage", "version", "version.build"}
)
# Of the protocol manual, not of the driver: a wrong unit there must show here. sim may not import
# the driver either. The vendor's own client checks this one (test_zaber_vendor_client).
_SPEED_UNIT = 1.6384
"""A speed of 1 microstep/s as the device counts it."""
_ACCELERATION_UNIT = _SPEED_UNIT / 10_000
"""An acceleration of 1 microstep/s² as the device counts it."""
_COMMAND = re.compile(r"(?:(\d{1,2})(?: (\d)(?: (\d{1,2}|--))?)?)? ?(.*)", re.DOTALL)
_RANK = ("FF", "FE", "FS", "WL", "WV", "WT", "WS", "WM", "WR", "WH", "NC", "NI")
_LONGEST_LINE = 120
_NAP_S = 0.05
_ANSWER_S = 0.001


class _Refused(Exception):  # noqa: N818 - it is an answer of the device, not an error of ours
    """The device answers a command with `RJ` and a reason."""


class VirtualZaber(VirtualDevice):
    """One device with one axis. Start it, open `port`, stop it with `close`; or use a `with`."""

    def __init__(
        self,
        clock: Clock,
        *,
        settings: Mapping[str, float] | None = None,
        microstep_mm: float = MICROSTEP_MM,
        link: Path | None = None,
        distance_mm: float = 40.0,
    ) -> None:
        """The carriage starts at `distance_mm` from its home position."""
        super().__init__("virtual-zaber", clock, link)
        self.settings: dict[str, float] = {**DEFAULT_SETTINGS, **(settings or {})}
        self._microstep_mm = microstep_mm
        self._axis = CountedAxis(distance_mm)
        self._flags = {"WR"}
        self._is_fresh = False
        """Whether the supply was interrupted since the last output."""
        self._moving = self._homing = False

    # -- For users of the emulator ------------------------------------------------------------

    def position_at(self, moment: float) -> float:
        return self._axis.true.position_at(moment) + 0.0

    @property
    def usable_mm(self) -> float:
        return self.settings["limit.max"] * self._microstep_mm

    @property
    def flags(self) -> frozenset[str]:
        """The flags that are set now."""
        return frozenset(self._flags)

    @in_own_thread
    def reset(self) -> None:
        """Interrupt the supply: the device restarts and has lost its position."""
        self._start_over()

    @in_own_thread
    def hang(self) -> None:
        """Stop, and do not answer or act until the supply is interrupted."""
        self._halt()
        self._wire.drop_unsent()
        self._hanging = True

    @in_own_thread
    def stall(self) -> None:
        """Block the carriage: this or the next motion ends at once and sets FS."""
        self._axis.stick(self._clock.now())
        if self._moving:
            self._stop_stalled()

    @in_own_thread
    def release(self) -> None:
        """Release the carriage."""
        self._axis.is_stuck = False

    @in_own_thread
    def raise_flag(self, flag: str) -> None:
        """Set a flag, as an overheated device does."""
        self._flags.add(flag)

    @in_own_thread
    def interrupt(self, target_microsteps: int, speed: float = 0) -> None:
        """Move it as another program would; the speed is in the device's unit, 0 is the largest."""
        self._move(target_microsteps * self._microstep_mm, speed)

    @in_own_thread
    def lose_steps(self, by_mm: float) -> None:
        """Shift the carriage; the device does not notice."""
        self._axis.true.shift(by_mm, self._clock.now())

    # -- The wire -----------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._closing:
            until = self._clock.now() + _NAP_S
            if self._moving and not self._hanging:
                until = min(until, self._axis.counted.still_at)
            self._attend(until)
            if not self._hanging:
                self._look_at_motion()
                self._take_commands()
            if not self._wire.is_open:
                self._received.clear()

    def _take_commands(self) -> None:
        while (end := self._received.find(b"\n")) >= 0:
            line = bytes(self._received[:end]).rstrip(b"\r")
            del self._received[: end + 1]
            start = line.rfind(b"/")
            if start >= 0 and len(line) - start <= _LONGEST_LINE:
                self._take(line[start + 1 :])
        if len(self._received) > 4 * _LONGEST_LINE:
            self._received.clear()

    # -- Commands -----------------------------------------------------------------------------

    def _take(self, body: bytes) -> None:
        """Execute the text after the slash; ignore wrong checksums and other addresses."""
        if body[-3:-2] == b":":
            body, checksum = body[:-3], body[-2:]
            if b"%02X" % (-sum(body) & 0xFF) != checksum.upper():
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
        self._send_line(f"@{address:02d} {axis} {echo}{verdict} {self._status()} {data}")

    def _send_line(self, line: str) -> None:
        body = line[1:].encode("ascii")
        tail = b":%02X" % (-sum(body) & 0xFF) if self.settings["comm.checksum"] else b""
        self._transmit(line[:1].encode("ascii") + body + tail + b"\r\n", _ANSWER_S)
        self._is_fresh = False

    def _status(self) -> str:
        return f"{'BUSY' if self._moving else 'IDLE'} {[*self._ranked_flags(), '--'][0]}"

    def _ranked_flags(self) -> list[str]:
        known = [flag for flag in _RANK if flag in self._flags]
        return known + sorted(self._flags - set(_RANK))

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
            return self._list_warnings(clear=rest == "clear")
        elif text == "system reset":
            self._start_over()
        else:
            raise _Refused("BADCOMMAND")
        return "0"

    def _get(self, name: str, axis: int) -> str:
        if name == "pos":
            return str(self._pos())
        self._require(name in self.settings, name, axis)
        decimals = {"version": 2, "system.voltage": 1}.get(name, 0)
        return f"{self.settings[name]:.{decimals}f}"

    def _require(self, is_known: bool, name: str, axis: int) -> None:
        if not is_known:
            raise _Refused("BADCOMMAND")
        if axis and _DEVICE_WIDE.match(name):
            raise _Refused("DEVICEONLY")

    def _set(self, name: str, value: float, axis: int) -> None:
        if name == "pos":
            self._axis.counted.put(value * self._microstep_mm, self._clock.now())
            return
        self._require(name in self.settings and name not in _READ_ONLY, name, axis)
        if (name == "maxspeed" and value <= 0) or (name.startswith("comm.") and value < 0):
            raise _Refused("BADDATA")
        self.settings[name] = value

    def _execute_move(self, rest: str) -> None:
        how, *numbers = rest.split() or [""]
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
        self.blind_moves += bool(self._flags & {"WR", "WH"}) and not self._is_fresh
        self._move(round(target) * self._microstep_mm, speed, acceleration)

    def _list_warnings(self, *, clear: bool) -> str:
        flags = self._ranked_flags()
        if clear:
            self._flags &= {"WR", "WH", "WT", "WV"}
        return " ".join([f"{len(flags):02d}", *flags])

    # -- Motion -------------------------------------------------------------------------------

    def _pos(self) -> int:
        return round(self._axis.counted.position_at(self._clock.now()) / self._microstep_mm)

    def _acceleration(self, data: float | None = None) -> float:
        value = self.settings["accel"] if data is None else data
        return inf if value == 0 else value / _ACCELERATION_UNIT * self._microstep_mm

    def _move(self, to_mm: float, speed_data: float = 0, acceleration: float | None = None) -> None:
        begin = self._interrupt_motion()
        speed = (speed_data or self.settings["maxspeed"]) / _SPEED_UNIT * self._microstep_mm
        self._start_motion(to_mm, begin, Trapezoid(speed, self._acceleration(acceleration)))

    def _home(self) -> None:
        """Move by the true distance of the carriage from its home position."""
        begin = self._interrupt_motion()
        speed = self.settings["limit.approach.maxspeed"] / _SPEED_UNIT * self._microstep_mm
        here, true = self._axis.counted.position_at(begin), self._axis.true.position_at(begin)
        self._homing = True
        self.is_newly_opened = False
        self._start_motion(here - true, begin, Trapezoid(speed, self._acceleration()))

    def _interrupt_motion(self) -> float:
        """Brake if it moves; the time at which it stands still."""
        now = self._clock.now()
        if self._moving:
            self._flags.add("NI")
            self._axis.brake(now, self._acceleration())
        self._homing = False
        return max(now, self._axis.counted.still_at)

    def _start_motion(self, to_mm: float, begin: float, motion: Trapezoid) -> None:
        self._moving = True
        self._flags -= {"FS"}
        self._axis.move(to_mm, begin, motion, (0.0, self.usable_mm))
        if self._axis.is_stuck:
            self._stop_stalled()

    def _look_at_motion(self) -> None:
        now = self._clock.now()
        if self._moving and self._axis.counted.still_at <= now:
            self._moving = False
            if self._homing:
                self._homing = False
                self._axis.counted.put(0.0, now)
                self._axis.true.put(0.0, now)
                self._flags -= {"WR", "WH", "WL", "WM", "WS", "NI"}
            self._alert()

    def _stop(self, acceleration: float) -> None:
        if self._moving:
            self._axis.brake(self._clock.now(), acceleration)
            self._round_to_steps()
            self._homing = False
            self._flags.add("NI")

    def _round_to_steps(self) -> None:
        """Move the count to the nearest step: a motor stops on a step."""
        end = self._axis.counted.still_at
        counted = self._axis.counted.position_at(end)
        whole = round(counted / self._microstep_mm) * self._microstep_mm
        self._axis.counted.put(whole, end)
        self._axis.true.put(self._axis.true.position_at(end) + whole - counted, end)

    def _stop_stalled(self) -> None:
        self._halt()
        self._flags.add("FS")
        self._alert()

    def _halt(self) -> None:
        self._axis.brake(self._clock.now())
        self._round_to_steps()
        self._moving = self._homing = False

    def _alert(self) -> None:
        if self.settings["comm.alert"]:
            self._send_line(f"!{int(self.settings['comm.address']):02d} 1 {self._status()}")

    def _start_over(self) -> None:
        self._halt()
        self._hanging = False
        self._received.clear()
        self._wire.drop_unsent()
        self._axis.counted.put(0.0, self._clock.now())
        self._flags = {"WR"}
        self._is_fresh = True


def _number(text: str) -> float:
    if not re.fullmatch(r"-?\d{1,10}(\.\d{1,9})?", text):
        raise _Refused("BADDATA")
    return float(text)


def guide_board(config: Config, clock: Clock, link: Path | None) -> VirtualZaber:
    """The device of the bench guide with the actuator of a config.

    The rail is longer than that of the guide only if `stage.travel_mm` asks for it, so that a
    config that does not fit the guide's rail does not fit this one either.
    """
    physical, stage = config.physical, config.stage
    own = stage.model_dump()[stage.driver_name()]
    step_mm = MICROSTEP_MM if own["microstep_mm"] == "unknown" else own["microstep_mm"]
    travel_mm = 0.0 if stage.travel_mm == "auto" else stage.offset_mm + stage.travel_mm
    speed_mm_per_s = physical.actuator_speed_m_per_s * 1e3
    settings = {
        "limit.max": float(max(floor(GUIDE_TRAVEL_MM / step_mm), ceil(travel_mm / step_mm))),
        "maxspeed": float(round(speed_mm_per_s / step_mm * _SPEED_UNIT)),
    }
    if physical.acceleration_m_per_s2 != "ideal":
        acceleration = physical.acceleration_m_per_s2 * 1e3
        settings["accel"] = float(round(acceleration / step_mm * _ACCELERATION_UNIT))
    return VirtualZaber(clock, link=link, settings=settings, microstep_mm=step_mm)
