"""An emulated GRBL board: its lines, its homing, and its faults.

A line is a motion or a dwell in G-code, or a system command such as `$H`. Faults are injected by
methods.
"""

from __future__ import annotations

import re
from pathlib import Path

from macontrol.config import Config
from macontrol.hal import Clock
from macontrol.sim.bench.boards.device import in_own_thread
from macontrol.sim.bench.boards.grbl.axis import LONGEST_QUEUE
from macontrol.sim.bench.boards.grbl.gcode import Dwell, Motion, Refused, strip
from macontrol.sim.bench.boards.grbl.program import TICK_S, GrblProgram, HardResetError
from macontrol.sim.bench.boards.grbl.reports import HELP, build, setting

GUIDE_SETTINGS: dict[int, float] = {20: 1, 22: 1, 27: 2, 100: 80, 110: 12000, 120: 2000, 130: 300}
"""The GRBL settings of docs/build-a-bench.md."""


class VirtualGrbl(GrblProgram):
    """One board. Start it, open `port`, and stop it with `close`; or use it in a `with`."""

    # -- For users of the emulator ------------------------------------------------------------

    def position_at(self, moment: float) -> float:
        return self._axis.distance_at(moment)

    @property
    def usable_mm(self) -> float:
        return self.settings[130] - 2 * self.settings[27]

    @property
    def state(self) -> str:
        """The state that the board would report now."""
        return self._state

    @in_own_thread
    def plug_in(self) -> None:
        """Connect the cable again. The cable powers the board, which starts from nothing."""
        self._wire.plug_in()
        raise HardResetError

    @in_own_thread
    def reset(self) -> None:
        """Press the reset button, or interrupt the supply."""
        raise HardResetError

    def trip_limit(self) -> None:
        """Disturb the wire of the limit switch: a hard-limit alarm without a cause."""
        self.raise_alarm(1)

    @in_own_thread
    def raise_alarm(self, code: int) -> None:
        """Make the board stop and lock itself with an alarm."""
        if self._state != "Alarm":
            self._kill()
            self._pending_alarm = code

    @in_own_thread
    def hang(self) -> None:
        """Stop answering and acting until the board is reset by opening its port."""
        self._hanging = True
        self._axis.brake(self._clock.now())

    @in_own_thread
    def lose_steps(self, by_mm: float) -> None:
        """Shift the carriage (mm, positive away from the switch); the board does not notice."""
        self._axis.lose_steps(by_mm, self._clock.now())

    @in_own_thread
    def stick(self) -> None:
        """Block the carriage: the board counts steps, and nothing moves."""
        self._axis.stick(self._clock.now())

    @in_own_thread
    def release(self) -> None:
        """Release the carriage."""
        self._axis.is_stuck = False

    @in_own_thread
    def jog(self, to_mm: float) -> None:
        """Move the carriage (mm from its home position), as a pendant does."""
        self._execute(f"$J=G90G21G53X{self._axis.machine_mm(to_mm):.4f}F6000")

    @in_own_thread
    def press_hold(self) -> None:
        """Press the feed-hold button."""
        self._hold_flag = True

    @in_own_thread
    def press_start(self) -> None:
        """Press the cycle-start button, which ends a hold."""
        self._start_flag = True

    # -- Lines --------------------------------------------------------------------------------

    def _execute(self, raw: str) -> None:
        line = strip(raw)
        if not line:
            return
        if line.startswith("$"):
            self._execute_system(line)
        elif self._state in ("Alarm", "Jog"):
            raise Refused(9)
        elif self._last_error and self._dialect == "grblhal":
            raise Refused(self._last_error)  # until an empty line or a `$` command
        else:
            self._execute_gcode(line, jog=False)

    def _execute_system(self, line: str) -> None:
        at_any_time = {
            "$": lambda: self._send_line(HELP),
            "$$": self._list_settings,
            "$G": self._report_modes,
            "$X": self._unlock,
        }
        if line in at_any_time:
            at_any_time[line]()
        elif line.startswith("$J"):
            self._execute_jog(line)
        elif self._state not in ("Idle", "Alarm"):
            raise Refused(8)
        elif line == "$I":
            for answer in build(self._dialect, single_axis_homing=self._single_axis_homing):
                self._send_line(answer)
        elif line.startswith("$H"):
            self._execute_homing(line[2:])
        elif stored := re.fullmatch(r"\$(\d+)=(-?\d*\.?\d+)", line):
            self._store(int(stored[1]), float(stored[2]))
        else:
            raise Refused(3 if self._dialect == "grblhal" or re.match(r"\$\d", line) else 2)

    def _list_settings(self) -> None:
        if self._state in ("Run", "Hold"):
            raise Refused(8)
        for number in sorted(self.settings):
            self._send_line(setting(self._dialect, number, self.settings[number]))

    def _report_modes(self) -> None:
        modes = self._gcode.modes
        feed = modes.feed_mm_per_min
        self._send_line(f"[GC:G{modes.motion} G54 G17 G21 G90 G94 M5 M9 T0 F{feed:.0f} S0]")

    def _unlock(self) -> None:
        if self._state == "Alarm":
            self._send_line("[MSG:Caution: Unlocked]")
            self._state = "Idle"

    def _execute_jog(self, line: str) -> None:
        if self._state not in ("Idle", "Jog"):
            raise Refused(8)
        if line[2:3] != "=":
            raise Refused(3)
        self._execute_gcode(line[3:], jog=True)

    def _store(self, number: int, value: float) -> None:
        if number not in self.settings:
            raise Refused(3 if self._dialect == "grbl" else 53)
        if value < 0:
            raise Refused(4)
        if number == 20 and value and not self.settings[22]:
            raise Refused(10)
        self.settings[number] = value

    def _execute_gcode(self, line: str, *, jog: bool) -> None:
        match self._gcode.read(line, jog=jog):
            case Dwell(seconds):
                self._dwell(seconds)
            case Motion() as motion:
                self._go(motion, jog=jog)

    def _go(self, motion: Motion, *, jog: bool) -> None:
        target, speed = motion.target_mm, self.settings[110] / 60
        if motion.is_relative:
            target += self._axis.end_of_plan(self._clock.now())
        if motion.feed_mm_per_min is not None:
            speed = min(speed, motion.feed_mm_per_min / 60)
        if self.settings[20] and self._is_beyond(target):
            if jog:
                raise Refused(15)
            self._stop_at_soft_limit()
        self.blind_moves += not self._homed
        if self._axis.ends_plan_at(target, self._clock.now()):
            return
        while self._axis.planned >= LONGEST_QUEUE:
            self._wait(self._clock.now() + TICK_S)
            self._checkpoint()
        self._axis.plan(target, speed, self._clock.now())
        self._state = "Jog" if jog else "Run"

    def _is_beyond(self, target_mm: float) -> bool:
        travel, pull_off = self.settings[130], self.settings[27]
        if self._dialect == "grblhal":
            low, high = pull_off - travel, -pull_off
            return self._homed and not low - 1e-6 <= target_mm <= high + 1e-6
        return not -travel <= target_mm <= 0

    def _stop_at_soft_limit(self) -> None:
        """Stop the motion, then lock."""
        if self._state == "Run":
            self._begin_hold()
            while self._suspended and not self._hold_complete:
                self._wait(self._clock.now() + TICK_S)
                self._act()
            self._suspended = False
        self._axis.drop_plan()
        self._pending_alarm = 2
        self._act()

    def _dwell(self, seconds: float) -> None:
        while self._axis.planned or self._state == "Run":
            self._wait(min(self._clock.now() + TICK_S, self._axis.first_end_s()))
            self._checkpoint()
        until = self._clock.now() + (0.05 if seconds > 0 else 0.0) + seconds
        while self._clock.now() < until:
            self._wait(until)
            self._checkpoint()

    # -- Homing -------------------------------------------------------------------------------

    def _execute_homing(self, axes: str) -> None:
        if not self.settings[22]:
            raise Refused(5)
        self._state = "Home"
        self.is_newly_opened = False
        if axes and not (self._single_axis_homing and axes in ("X", "Y", "Z")):
            if self._dialect == "grblhal":
                self._state = "Idle"
                raise Refused(5)
            raise Refused(3)  # GRBL stays in this state until it is reset
        if self._dialect == "grblhal":
            self._report_status()
        if axes in ("", "X"):
            self._seek_switch()
            self._axis.count_from(self._axis.home_mm, self._clock.now())
        if not axes:
            self._other_axes_mm = self._axis.home_mm
        self._homed = True
        self._act()  # requests during homing are answered in the state Home
        self._state = "Idle"
        if self._dialect == "grblhal":
            self._send_line("[MSG:]")

    def _seek_switch(self) -> None:
        """Close the switch, leave it, close it slowly again, and leave it."""
        axis, debounce_s = self._axis, self.settings[26] / 1e3
        self._pause_homing(axis.seek_switch(self._clock.now()))
        if not self._switch_is_closed():
            self._pending_alarm = 9
            self._reset_flag = True
            self._act()
        for start in (axis.leave_switch, axis.touch_switch, axis.leave_switch):
            self._pause_homing(debounce_s)
            self._pause_homing(start(self._clock.now()))
        self._pause_homing(debounce_s)

    def _pause_homing(self, for_s: float) -> None:
        """Wait during homing, where only a reset is acted on; grblHAL reports as well."""
        until = self._clock.now() + for_s
        while self._clock.now() < until:
            self._wait(until)
            if self._reset_flag or self._pending_alarm:
                self._reset_flag = True
                self._act()
            if self._dialect == "grblhal":
                self._report_if_asked()


def guide_board(config: Config, clock: Clock, link: Path | None) -> VirtualGrbl:
    """The board of the bench guide with the actuator of a config.

    The rail is longer than that of the guide only if `stage.travel_mm` asks for it, so that a
    config that does not fit the guide's rail does not fit this one either.
    """
    physical, stage = config.physical, config.stage
    travel_mm = 0.0 if stage.travel_mm == "auto" else stage.offset_mm + stage.travel_mm
    settings = {
        **GUIDE_SETTINGS,
        110: physical.actuator_speed_m_per_s * 1e3 * 60,
        130: max(GUIDE_SETTINGS[130], travel_mm + 2 * GUIDE_SETTINGS[27]),
    }
    if physical.acceleration_m_per_s2 != "ideal":
        settings[120] = physical.acceleration_m_per_s2 * 1e3
    if physical.step_mm != "ideal":
        settings[100] = 1 / physical.step_mm
    return VirtualGrbl(clock, link=link, settings=settings)
