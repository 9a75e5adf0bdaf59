"""Examine the stage: board, settings, homing, latency, slot. Nothing moves."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from macontrol.bench_plan import check_stage, latency_fix
from macontrol.config import Config
from macontrol.config.model.errors import ConfigError, LineBusyError, StageError
from macontrol.config.model.rounding import at_most
from macontrol.config.sections.stage import SerialStageSettings, StageSettings
from macontrol.doctor.report import Report
from macontrol.hal import Clock
from macontrol.hal.registry import STAGES
from macontrol.hal.serial.line import TrafficLog
from macontrol.hal.serial.stage import SerialStage
from macontrol.hal.stage import require_plausible
from macontrol.serial_bench import SerialBench

_SUBJECTS = ("board", "settings", "homing", "latency", "slot")
_CONNECT_S = 30.0
# An adapter that passes bytes on at once takes much less than this.
_QUICK_S = 0.010
_USB_SERIAL = Path("/sys/bus/usb-serial/devices")
_SETTINGS_FIRST = "correct the settings first"


class StageExamination:
    """Connects the stage and reports what it finds."""

    def __init__(self, config: Config, clock: Clock, report: Report, closing: ExitStack) -> None:
        self._config = config
        self._clock = clock
        self._report = report
        self._closing = closing
        self._diagnostics = STAGES[config.stage.driver].make_diagnostics(config.stage)
        self._contradiction: ConfigError | None = None

    def skip(self, reason: str) -> None:
        """Report that nothing of the stage is examined."""
        self._report.skipped(reason, *_SUBJECTS)

    def examine(self, log: TrafficLog | None) -> None:
        report, diagnostics = self._report, self._diagnostics
        try:
            stage = self._connect(_both(log, diagnostics.log))
        except LineBusyError as error:  # by a program that this user cannot see
            report.error("in use", error, "end the program that has the port")
            self.skip("the port cannot be used")
            return
        except StageError as error:
            report.passed("in use", "no")
            detail = error.detail
            if diagnostics.board:
                detail = f"{diagnostics.board} answered, and then stopped answering: {detail}"
            report.failed("board", detail, error.fix or "check its power and the port")
            report.skipped("the board does not answer", *_SUBJECTS[1:])
            return
        report.passed("in use", "no")
        if diagnostics.board:
            report.passed("board", f"{diagnostics.board}{_speed_of(self._config.stage)}")
        else:
            report.skipped(_SETTINGS_FIRST, "board")
        self._report_settings(stage)
        self._report_homing()
        if stage is None:
            report.skipped(_SETTINGS_FIRST, "latency", "slot")
            return
        report_latency(self._config, stage, report)
        if self._contradiction is None:
            report_slot(self._config, stage, report)
        else:
            report.skipped(_SETTINGS_FIRST, "slot")

    def _connect(self, log: TrafficLog) -> SerialStage | None:
        """The connected stage; None if the board's settings do not allow that."""
        try:
            return self._connect_with(self._config, log)
        except ConfigError as error:
            self._contradiction = error
        # Leave everything to the board, to find what else there is to report.
        config = self._config.replace(
            stage__travel_mm="auto", stage__speed_mm_per_s="auto", stage__offset_mm=0.0
        )
        try:
            return self._connect_with(config, log)
        except ConfigError:
            return None

    def _connect_with(self, config: Config, log: TrafficLog) -> SerialStage:
        bench = SerialBench(
            config, self._clock, confirm_homing=lambda: False, report=lambda _: None, log=log
        )
        self._closing.callback(bench.stage.close)
        bench.stage.connect(self._clock.now() + _CONNECT_S)
        require_plausible(bench.stage.description)
        return bench.stage

    def _report_settings(self, stage: SerialStage | None) -> None:
        if self._contradiction is not None:
            self._report.error("settings", self._contradiction, "correct the config or the board")
        elif stage is not None:
            found = stage.description
            self._report.passed(
                "settings",
                f"{found.travel_mm:.1f} mm of travel, {found.speed_mm_per_s:g} mm/s, "
                f"{found.acceleration_mm_per_s2:g} mm/s², steps of {found.step_mm:.4g} mm",
            )
        for advice in self._diagnostics.advice():
            self._report.note("settings", *advice)

    def _report_homing(self) -> None:
        problem = self._diagnostics.problem()
        if problem is not None:
            self._report.failed("homing", *problem)
            return
        asks = self._config.stage.homing == "ask"
        how = "with --yes, or after you agree" if asks else "without asking"
        self._report.passed(
            "homing",
            f"not homed, as after every start ({self._diagnostics.state}); a run homes it {how}",
        )


def report_latency(config: Config, stage: SerialStage, report: Report) -> None:
    """Report how fast the board answers."""
    times = stage.answer_times
    usual, worst = times.usual[-1], max(sample[-1] for sample in times.samples)
    detail = f"answers in {usual * 1e3:.1f} ms, at worst {worst * 1e3:.1f} ms"
    assumed = config.physical.command_latency_s
    timer = _USB_SERIAL / Path(stage.description.name).name / "latency_timer"
    if usual > _QUICK_S and timer.exists():
        report.note("latency", detail, f"echo 1 | sudo tee {timer}")
    elif stage.description.latency_s > assumed:
        fix = latency_fix(config, stage.description.latency_s)
        report.note(
            "latency",
            f"{detail}; physical.command_latency_s is {assumed * 1e3:g} ms",
            f"{fix}, or end what loads this computer",
        )
    else:
        report.passed("latency", detail)


def report_slot(config: Config, stage: SerialStage, report: Report) -> None:
    """Report whether the stage keeps the slot, and the longest stroke that would fit."""
    physical = config.physical
    try:
        plan = check_stage(config, stage)
    except (ConfigError, StageError) as error:
        report.error("slot", error, "correct the config")
        return
    longest = min(physical.to_wavelengths(plan.stroke_mm), physical.actuator_reach)
    report.passed(
        "slot",
        f"a stroke of {physical.stroke_mm:.4g} mm takes "
        f"{plan.smallest_actuation_s * 1e3:.1f} of {physical.actuation_time_s * 1e3:g} ms; "
        f"up to {at_most(physical.to_mm(longest), 4)} mm would fit "
        f"(physical.stroke = {at_most(longest, 4)})",
    )


def _speed_of(settings: StageSettings) -> str:
    if not isinstance(settings, SerialStageSettings):
        return ""
    return f" at {settings.baud_rate} baud"


def _both(one: TrafficLog | None, other: TrafficLog) -> TrafficLog:
    if one is None:
        return other

    def log(direction: str, data: bytes) -> None:
        one(direction, data)
        other(direction, data)

    return log
