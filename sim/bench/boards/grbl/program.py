"""The main program of the emulated GRBL board: resets, real-time characters, hold, alarms, lines.

It reproduces transcripts of GRBL 1.1h on an emulated ATmega328P and of grblHAL's simulator. It
follows the order of the firmware: real-time characters are stored when they arrive, and acted on
only at the firmware's checkpoints.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path

from macontrol.hal import Clock
from macontrol.sim.bench.boards.device import VirtualDevice
from macontrol.sim.bench.boards.grbl.axis import PlannedAxis
from macontrol.sim.bench.boards.grbl.gcode import GcodeReader, Refused
from macontrol.sim.bench.boards.grbl.reports import (
    BANNERS,
    DEFAULT_SETTINGS,
    Dialect,
    StatusReports,
)

TICK_S = 0.001
_RECEIVE_BUFFER: dict[Dialect, int] = {"grbl": 128, "grblhal": 1024}
_ALARM_PAUSE_S = 0.5
_BOOT_S = 0.01
_ANSWER_S = 0.0015


class SoftResetError(Exception):
    """The board restarts and keeps its count of steps."""


class HardResetError(Exception):
    """The board restarts from nothing."""


class _ClosedError(Exception):
    """The emulator ends."""


class GrblProgram(VirtualDevice):
    """The board without its commands, which a subclass executes."""

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
    ) -> None:
        """The carriage starts at `distance_mm` from its home position."""
        super().__init__("virtual-grbl", clock, link)
        self._dialect = dialect
        self.settings = {**DEFAULT_SETTINGS, **(settings or {})}
        self._single_axis_homing = single_axis_homing
        self.reset_on_open = reset_on_open
        self.boot_text = b""
        """The output of the boot loader, before the banner."""
        self._axis = PlannedAxis(self.settings, distance_mm)
        self._other_axes_mm = 0.0
        self._state = "Idle"
        self._homed = False
        self._clear_state()

    def _clear_state(self) -> None:
        """The part of the state that any reset clears."""
        self._hold_complete = self._suspended = self._jog_cancel = self._cancel_flag = False
        self._reset_flag = self._status_flag = self._hold_flag = self._start_flag = False
        self._pending_alarm = self._last_error = 0
        self._gcode = GcodeReader()
        self._reports = StatusReports(self._dialect)

    @abstractmethod
    def _execute(self, raw: str) -> None:
        """Execute a line, or raise Refused."""

    # -- The wire -----------------------------------------------------------------------------

    def _opened(self) -> None:
        if self.reset_on_open:
            raise HardResetError

    def _receive(self, data: bytes) -> None:
        """The receive interrupt of the firmware."""
        for byte in data:
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

    def _send_line(self, line: str) -> None:
        self._transmit(line.encode("ascii") + b"\r\n")

    def _wait(self, until: float) -> None:
        """Wait at most until a moment; return early when bytes arrive."""
        while True:
            if self._closing:
                raise _ClosedError
            received = self._attend(until)
            if self._hanging:
                until = max(until, self._clock.now() + 0.01)
            elif received or self._clock.now() >= until:
                return

    def _pause(self, for_s: float) -> None:
        """Be busy for a time: bytes are stored and not acted on."""
        until = self._clock.now() + for_s
        while self._clock.now() < until:
            self._wait(until)

    # -- The main program ---------------------------------------------------------------------

    def _run(self) -> None:
        reset: type[Exception] = HardResetError
        while True:
            try:
                self._start_over(hard=reset is HardResetError)
                self._main_loop()
            except _ClosedError:
                return
            except (SoftResetError, HardResetError) as cause:
                reset = type(cause)

    def _start_over(self, *, hard: bool) -> None:
        self._hanging = False
        self._received.clear()
        self._axis.drop_plan()
        if hard:
            now = self._clock.now()
            self._wire.drop_unsent()
            self._axis.brake(now)
            self._axis.count_from(0.0, now)
            self._other_axes_mm = 0.0
            # grblHAL locks itself at the start only if another bit of $22 is set.
            locking = 1 if self._dialect == "grbl" else 4
            self._state = "Alarm" if int(self.settings[22]) & locking else "Idle"
            self._homed = False
            self._pause(_BOOT_S)
            self._transmit(self.boot_text)
        self._clear_state()
        self._send_line(BANNERS[self._dialect])
        if self.settings[21] and self._switch_is_closed():
            self._state = "Alarm"
            self._send_line("[MSG:Check Limits]")
        if self._state == "Alarm":
            self._send_line("[MSG:'$H'|'$X' to unlock]")
        else:
            self._state = "Idle"

    def _main_loop(self) -> None:
        while True:
            line = self._next_line()
            self.lines.append(line)
            self._pause(_ANSWER_S)
            try:
                self._execute(line)
                self._last_error = 0
                answer = "ok"
            except Refused as refusal:
                self._last_error = refusal.code
                answer = f"error:{refusal.code}"
            except SoftResetError:
                if self._dialect == "grbl":  # it confirms also the line that it has just dropped
                    self._send_line("ok")
                raise
            self._send_line(answer)

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

    def _nap(self) -> float:
        """The interval until the next look at the motion."""
        return TICK_S if self._axis.planned or self._state in ("Run", "Jog", "Hold") else 0.05

    def _checkpoint(self) -> None:
        """The firmware's protocol_execute_realtime: act on what has arrived."""
        self._act()
        while self._suspended:
            self._wait(self._clock.now() + TICK_S)
            self._act()

    def _act(self) -> None:
        self._look_at_motion()
        if self._pending_alarm:
            self._raise_alarm()
        if self._reset_flag:
            raise SoftResetError
        self._report_if_asked()
        if self._hold_flag or (self._cancel_flag and self._state == "Jog"):
            self._hold_flag = self._start_flag = False
            self._begin_hold()
        self._cancel_flag = False
        if self._start_flag:
            self._start_flag = False
            if self._state == "Hold" and self._hold_complete:
                self._resume()

    def _report_if_asked(self) -> None:
        if self._status_flag:
            self._status_flag = False
            self._report_status()

    def _report_status(self) -> None:
        now, others = self._clock.now(), self._other_axes_mm
        state = self._state
        if state == "Hold":
            state += ":0" if self._hold_complete else ":1"
        self._send_line(
            self._reports.report(
                state,
                (self._axis.position_at(now), others, others),
                speed_mm_per_s=abs(self._axis.counted.speed_at(now)),
                planned=self._axis.planned,
                switch_is_closed=self._switch_is_closed(),
            )
        )

    # -- Motion, hold and alarm ---------------------------------------------------------------

    def _look_at_motion(self) -> None:
        now = self._clock.now()
        if not self._suspended:
            self._axis.drop_finished(now)
        standing = self._axis.is_standing(now)
        if self._state in ("Run", "Jog") and standing and not self._axis.planned:
            self._state = "Idle"
        if self._suspended and standing and not self._hold_complete:
            self._hold_complete = True
            self._axis.round_to_steps(now)
            if self._jog_cancel:
                self._axis.drop_plan()
                self._suspended = self._jog_cancel = self._hold_complete = False
                self._state = "Idle"
        if self.settings[21] and self._state in ("Run", "Jog") and self._switch_is_closed():
            self._kill()
            self._pending_alarm = 1

    def _switch_is_closed(self) -> bool:
        return self._axis.switch_is_closed(self._clock.now())

    def _begin_hold(self) -> None:
        if self._state == "Alarm":
            return
        if self._state in ("Run", "Jog"):
            self._axis.brake(self._clock.now(), self.settings[120])
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
            self._send_line("[MSG:]")
        self._axis.resume_plan(self._clock.now())
        self._state = "Run" if self._axis.planned else "Idle"

    def _kill(self) -> None:
        """The firmware's mc_reset, called in interrupts: stop the step pulses."""
        moving = self._state in ("Run", "Jog") or (self._suspended and not self._hold_complete)
        if self._state == "Home":
            self._pending_alarm = self._pending_alarm or 6
        elif moving:
            self._pending_alarm = 3
        if moving or self._state == "Home":
            self._axis.halt(self._clock.now())
            self._suspended = False

    def _raise_alarm(self) -> None:
        code = self._pending_alarm
        self._state = "Alarm"
        self._homed = False
        self._suspended = False
        self._send_line(f"ALARM:{code}")
        if self._dialect == "grbl":
            self._pause(_ALARM_PAUSE_S)
        if code in (1, 2):
            self._reset_flag = False
            self._send_line("[MSG:Reset to continue]")
            while not self._reset_flag:
                self._wait(self._clock.now() + 0.05)
                if self._dialect == "grblhal":
                    self._answer_while_locked()
        self._pending_alarm = 0

    def _answer_while_locked(self) -> None:
        """Report and refuse lines, as grblHAL does; GRBL does not answer at all."""
        self._report_if_asked()
        if b"\n" in self._received:
            self._received.clear()
            self._send_line("error:79")
