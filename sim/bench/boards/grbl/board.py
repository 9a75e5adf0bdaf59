"""A GRBL board that is not there: what its lines do, and what can be done to it.

A line is a motion or a dwell in G-code, or one of the system's commands, as `$H` for homing.
Faults come on demand.
"""

from __future__ import annotations

import re

from macontrol.sim.bench.boards.grbl.axis import LONGEST_QUEUE
from macontrol.sim.bench.boards.grbl.gcode import Dwell, Motion, Refused, strip
from macontrol.sim.bench.boards.grbl.program import TICK_S, GrblProgram, HardResetError
from macontrol.sim.bench.boards.grbl.reports import HELP, build, setting


class VirtualGrbl(GrblProgram):
    """One board. Start it, open `port`, and stop it with `close`; or use it in a `with`."""

    # -- From outside -------------------------------------------------------------------------

    def position_at(self, moment: float) -> float:
        return self._axis.distance_at(moment)

    @property
    def usable_mm(self) -> float:
        return self.settings[130] - 2 * self.settings[27]

    @property
    def state(self) -> str:
        """What the board would report now."""
        return self._state

    def plug_in(self) -> None:
        """Put the cable back; the board was powered by it, so it has forgotten everything."""

        def plug_in() -> None:
            self._wire.plug_in()
            raise HardResetError

        self._do(plug_in)

    def reset(self) -> None:
        """Press the board's reset button, or let its supply dip."""

        def press() -> None:
            raise HardResetError

        self._do(press)

    def trip_limit(self) -> None:
        """A spike on the wire of the limit switch: a hard-limit alarm out of nothing."""
        self.raise_alarm(1)

    def raise_alarm(self, code: int) -> None:
        """Have the board stop and lock itself for some reason of its own."""

        def strike() -> None:
            if self._state != "Alarm":
                self._kill()
                self._pending_alarm = code

        self._do(strike)

    def hang(self) -> None:
        """Neither answer nor act any more, until it is reset by being opened."""

        def hang() -> None:
            self._hanging = True
            self._axis.brake(self._clock.now())

        self._do(hang)

    def lose_steps(self, by_mm: float) -> None:
        """Shift the carriage (mm, positive away from its switch) without the board's knowing."""
        self._do(lambda: self._axis.lose_steps(by_mm, self._clock.now()))

    def stick(self) -> None:
        """Block the carriage: the board counts on, and nothing moves."""
        self._do(lambda: self._axis.stick(self._clock.now()))

    def release(self) -> None:
        """Free the carriage again."""
        self._do(self._axis.release)

    def jog(self, to_mm: float) -> None:
        """Move the carriage (mm from where homing takes it), as a pendant might."""
        target = self._axis.machine_mm(to_mm)
        self._do(lambda: self._execute(f"$J=G90G21G53X{target:.4f}F6000"))

    def press_hold(self) -> None:
        """Press the board's feed-hold button."""

        def press() -> None:
            self._hold_flag = True

        self._do(press)

    def press_start(self) -> None:
        """Press the board's cycle-start button, which ends a hold."""

        def press() -> None:
            self._start_flag = True

        self._do(press)

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
        if line == "$":
            self._say(HELP)
        elif line == "$$":
            if self._state in ("Run", "Hold"):
                raise Refused(8)
            for number in sorted(self.settings):
                self._say(setting(self._dialect, number, self.settings[number]))
        elif line == "$G":
            motion, feed = self._gcode.motion, self._gcode.feed_mm_per_min
            self._say(f"[GC:G{motion} G54 G17 G21 G90 G94 M5 M9 T0 F{feed:.0f} S0]")
        elif line == "$X":
            if self._state == "Alarm":
                self._say("[MSG:Caution: Unlocked]")
                self._state = "Idle"
        elif line.startswith("$J"):
            if self._state not in ("Idle", "Jog"):
                raise Refused(8)
            if line[2:3] != "=":
                raise Refused(3)
            self._execute_gcode(line[3:], jog=True)
        elif self._state not in ("Idle", "Alarm"):
            raise Refused(8)
        elif line == "$I":
            for said in build(self._dialect, single_axis_homing=self._single_axis_homing):
                self._say(said)
        elif line.startswith("$H"):
            self._execute_homing(line[2:])
        elif stored := re.fullmatch(r"\$(\d+)=(-?\d*\.?\d+)", line):
            self._store(int(stored[1]), float(stored[2]))
        else:
            raise Refused(3 if self._dialect == "grblhal" or re.match(r"\$\d", line) else 2)

    def _store(self, number: int, value: float) -> None:
        if number not in self.settings:
            raise Refused(3 if self._dialect == "grbl" else 53)
        if value < 0:
            raise Refused(4)
        if number == 20 and value and not self.settings[22]:
            raise Refused(10)
        self.settings[number] = value

    def _execute_gcode(self, line: str, *, jog: bool) -> None:
        wish = self._gcode.read(line, jog=jog)
        if isinstance(wish, Dwell):
            self._dwell(wish.seconds)
        elif isinstance(wish, Motion):
            self._go(wish, jog=jog)

    def _go(self, wish: Motion, *, jog: bool) -> None:
        target, speed = wish.target_mm, self.settings[110] / 60
        if wish.is_relative:
            target += self._axis.end_of_plan(self._clock.now())
        if wish.feed_mm_per_min is not None:
            speed = min(speed, wish.feed_mm_per_min / 60)
        if self.settings[20] and self._is_beyond(target):
            if jog:
                raise Refused(15)
            self._break_off()
        self.blind_moves += not self._homed
        if self._axis.leads_nowhere(target, self._clock.now()):
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

    def _break_off(self) -> None:
        """A soft limit: come to a stand, then lock."""
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
            raise Refused(3)  # and GRBL stays in this state until it is reset
        if self._dialect == "grblhal":
            self._report_status()
        if axes in ("", "X"):
            self._seek_switch()
            self._axis.count_from(self._axis.home_mm, self._clock.now())
        if not axes:
            self._other_axes_mm = self._axis.home_mm
        self._homed = True
        self._act()  # what was asked meanwhile is answered while the state is still Home
        self._state = "Idle"
        if self._dialect == "grblhal":
            self._say("[MSG:]")

    def _seek_switch(self) -> None:
        """Onto the switch, off it, slowly onto it again, and off it to stay."""
        axis, debounce_s = self._axis, self.settings[26] / 1e3
        self._pause_homing(axis.seek_switch(self._clock.now()))
        if not self._switch_is_closed():
            self._pending_alarm = 9
            self._reset_flag = True
            self._act()
        for set_out in (axis.leave_switch, axis.touch_switch, axis.leave_switch):
            self._pause_homing(debounce_s)
            self._pause_homing(set_out(self._clock.now()))
        self._pause_homing(debounce_s)

    def _pause_homing(self, for_s: float) -> None:
        """Nothing but a reset is acted upon in homing; grblHAL reports as well."""
        until = self._clock.now() + for_s
        while self._clock.now() < until:
            self._wait(until)
            if self._reset_flag or self._pending_alarm:
                self._reset_flag = True
                self._act()
            if self._dialect == "grblhal":
                self._report_if_asked()
