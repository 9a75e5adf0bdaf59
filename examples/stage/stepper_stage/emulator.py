"""An emulated board with the sketch `stepper`, for the virtual bench and for tests.

As an Arduino, it restarts when its port is opened.
"""

from __future__ import annotations

import re
from math import ceil, inf
from pathlib import Path

from macontrol.config import Config
from macontrol.config.model.motion import Trapezoid
from macontrol.hal import Clock
from macontrol.sim.bench.boards.axis import CountedAxis
from macontrol.sim.bench.boards.device import VirtualDevice, in_own_thread
from stepper_stage.protocol import signed

# As in the sketch.
FACTS = {
    "step_nm": 12_500,
    "travel": 23_600,
    "max_speed": 8000,
    "acceleration": 160_000,
    "homing_speed": 4000,
}
_LONGEST_LINE = 47
_NAP_S = 0.05
_ANSWER_S = 0.002
_START_S = 0.1
_MOVE = re.compile(r"move (-?\d{1,7}|\d{8}) (-?\d{1,7}|\d{8})")


class VirtualStepper(VirtualDevice):
    """One board and its carriage. Start it, open `port`, stop it with `close`; or use a `with`."""

    def __init__(
        self, clock: Clock, *, link: Path | None = None, distance_mm: float = 40.0, **facts: int
    ) -> None:
        """The carriage starts at this distance from its home position."""
        super().__init__("virtual-stepper", clock, link)
        self.settings = {**FACTS, **facts}
        self._step_mm = self.settings["step_nm"] * 1e-6
        self._axis = CountedAxis(distance_mm)
        self._state = "unhomed"
        self._ends_as = "idle"
        """The state after the present motion."""

    # -- For users of the emulator ------------------------------------------------------------

    def position_at(self, moment: float) -> float:
        return self._axis.true.position_at(moment) + 0.0

    @property
    def usable_mm(self) -> float:
        return self.settings["travel"] * self._step_mm

    @in_own_thread
    def reset(self) -> None:
        """Press its reset button."""
        self._restart()

    @in_own_thread
    def hang(self) -> None:
        """Stop, and do nothing until it is restarted."""
        self._halt()
        self._hanging = True

    @in_own_thread
    def trip_limit(self) -> None:
        """Press the home switch during this or the next motion."""
        self._ends_as = "fault"
        if self._is_busy:
            self._halt()

    @in_own_thread
    def stick(self) -> None:
        """Block the carriage; the board does not notice."""
        self._axis.stick(self._clock.now())

    @in_own_thread
    def release(self) -> None:
        self._axis.is_stuck = False

    @in_own_thread
    def lose_steps(self, by_mm: float) -> None:
        """Shift the carriage; the board does not notice."""
        self._axis.true.shift(by_mm, self._clock.now())

    # -- The wire -----------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._closing:
            until_s = self._clock.now() + _NAP_S
            if self._is_busy:
                until_s = min(until_s, self._axis.counted.still_at)
            self._attend(until_s)
            self._end_motion()
            while not self._hanging and (end := self._received.find(b"\n")) >= 0:
                line = bytes(self._received[:end])
                del self._received[: end + 1]
                if len(line) <= _LONGEST_LINE:
                    self._execute(line.decode("ascii", "replace"))

    def _opened(self) -> None:
        self._restart()

    def _execute(self, line: str) -> None:
        body = line[:-5]
        if not body.isascii() or signed(body).decode().strip() != line:
            return
        number, _, command = body.partition(" ")
        if re.fullmatch(r"\d{1,2}", number) is None or not command:
            return
        self.lines.append(command)
        facts = ""
        if move := _MOVE.fullmatch(command):
            result = self._move(int(move[1]), int(move[2]))
        elif command == "home":
            result = self._home()
        elif command in ("status", "stop", "info"):
            result = "ok"
            if command == "stop":
                self._stop()
            if command == "info":
                facts = " stepper-1 rail-1 " + " ".join(map(str, self.settings.values()))
        else:
            result = "unknown"
        self._reply(int(number), result, facts)

    def _reply(
        self, number: int, result: str, facts: str = "", *, delay_s: float = _ANSWER_S
    ) -> None:
        here = round(self._axis.counted.position_at(self._clock.now()) / self._step_mm)
        self._transmit(signed(f"{number} {result} {self._state} {here}{facts}"), delay_s)

    # -- Motion -------------------------------------------------------------------------------

    @property
    def _is_busy(self) -> bool:
        return self._state in ("moving", "homing")

    def _move(self, to: int, speed: int) -> str:
        if not (0 <= to <= self.settings["travel"] and 1 <= speed <= self.settings["max_speed"]):
            return "limit"
        if self._state != "idle":
            return "busy" if self._is_busy else "unhomed"
        self._start("moving", to * self._step_mm, speed)
        return "ok"

    def _home(self) -> str:
        if self._is_busy:
            return "busy"
        now = self._clock.now()
        self._ends_as, self.is_newly_opened = "idle", False
        way_mm = self._axis.true.position_at(now)
        target_mm = self._axis.counted.position_at(now) - way_mm
        self._start("homing", target_mm, self.settings["homing_speed"])
        return "ok"

    def _start(self, state: str, to_mm: float, speed: float) -> None:
        self._state = state
        motion = Trapezoid(speed * self._step_mm, self.settings["acceleration"] * self._step_mm)
        self._axis.move(to_mm, self._clock.now(), motion, (0.0, self.usable_mm))
        if self._ends_as == "fault":
            self._halt()

    def _end_motion(self) -> None:
        now = self._clock.now()
        if not self._is_busy or self._axis.counted.still_at > now:
            return
        if self._state == "homing" and self._ends_as == "idle":
            self._axis.counted.put(0.0, now)
            self._axis.true.put(0.0, now)
        self._state = self._ends_as

    def _stop(self) -> None:
        if self._is_busy:
            self._brake(self.settings["acceleration"] * self._step_mm)
            if self._state == "homing":
                self._ends_as = "unhomed"

    def _halt(self) -> None:
        self._brake(inf)
        self._end_motion()

    def _brake(self, acceleration: float) -> None:
        """Brake to a whole step: a motor stops on a step."""
        self._axis.brake(self._clock.now(), acceleration)
        end_s = self._axis.counted.still_at
        counted_mm = self._axis.counted.position_at(end_s)
        whole_mm = round(counted_mm / self._step_mm) * self._step_mm
        self._axis.counted.put(whole_mm, end_s)
        self._axis.true.put(self._axis.true.position_at(end_s) + whole_mm - counted_mm, end_s)

    def _restart(self) -> None:
        self._brake(inf)
        self._state, self._ends_as, self._hanging = "unhomed", "idle", False
        self._received.clear()
        self._wire.drop_unsent()
        self._axis.counted.put(0.0, self._clock.now())
        self._reply(0, "ok", delay_s=_START_S)


def guide_board(config: Config, clock: Clock, link: Path | None) -> VirtualStepper:
    """The board of the sketch, with the actuator of a config.

    The rail is longer than that of the sketch only if `stage.travel_mm` asks for it.
    """
    physical, stage, step_mm = config.physical, config.stage, FACTS["step_nm"] * 1e-6
    travel_mm = 0.0 if stage.travel_mm == "auto" else stage.offset_mm + stage.travel_mm
    facts = {
        "travel": max(FACTS["travel"], ceil(travel_mm / step_mm)),
        "max_speed": round(physical.actuator_speed_m_per_s * 1e3 / step_mm),
    }
    if physical.acceleration_m_per_s2 != "ideal":
        facts["acceleration"] = round(physical.acceleration_m_per_s2 * 1e3 / step_mm)
    return VirtualStepper(clock, link=link, **facts)
