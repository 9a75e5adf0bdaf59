"""The real bench: a serial stage and a software radio, brought up in a safe order.

First the board is met and asked what it can do; a slot plan that it cannot keep is refused. Then
the radio is opened, and its noise floor measured while the transmitter is off. Only when all that
has worked does anything move: the stage is homed, with somebody's consent.
"""

from __future__ import annotations

import select
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack
from math import ceil, floor
from typing import TypeVar

from macontrol.config import Config
from macontrol.config.errors import ConfigError
from macontrol.controller.patience import Patience
from macontrol.controller.record import EventKind
from macontrol.controller.survey_walk import measure_once
from macontrol.hal import Clock, ProbeError, StageDescription
from macontrol.hal.grbl import GrblStage
from macontrol.hal.rtl_tcp import RtlTcpStream
from macontrol.hal.sdr_probe import IQStream, NoiseFloor, SdrProbe
from macontrol.hal.serial_line import TrafficLog
from macontrol.hal.serial_stage import SerialStage
from macontrol.hal.slot_plan import SlotPlan, plan_slot
from macontrol.hal.soapy import SoapyStream
from macontrol.hal.zaber import ZaberStage
from macontrol.recorders import Teller

_CONNECT_S = 30.0
# The driver itself knows how long homing may take; this is only an end to all patience.
_HOME_S = 3600.0
# How long the transmitter may take to be switched on, and what tells that it is.
_SIGNAL_S = 120.0
_LEAST_REWARD = 0.02
_LEAST_SIGMA = 6.0
_FLOOR_ATTEMPTS = 3
_BEFORE_ALL_SLOTS = -1_000_000
_HOMING = "homing the stage"
# How soon a signal is heard while somebody is asked, or the radio gets ready.
_LISTENED_S = 0.1
_TOLD_TO_STOP = "told to stop"
# While the radio fails, the signal is looked for again after so long.
_FAILING_S = 0.5

_Result = TypeVar("_Result")


class SerialBench:
    """A stage behind a serial port and a probe behind a radio; `open` it before use."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        *,
        confirm_homing: Callable[[], bool],
        tell: Callable[[str], None],
        log: TrafficLog | None = None,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self._is_stopped = is_stopped
        self._config = config
        self._clock = clock
        self._tell = tell
        driver = ZaberStage if config.stage.driver == "zaber" else GrblStage

        def confirm() -> bool:
            agreed = confirm_homing()
            if agreed:
                tell(_HOMING)
            return agreed

        self._stage: SerialStage = driver(config.stage, clock, confirm_homing=confirm, log=log)
        radio = SoapyStream if config.probe.driver == "soapy" else RtlTcpStream
        stream: IQStream = radio(config.probe, clock)
        share = config.physical.transmission_share
        self._probe = SdrProbe(config.probe, stream, clock, transmission_share=share)

    @property
    def stage(self) -> SerialStage:
        return self._stage

    @property
    def probe(self) -> SdrProbe:
        return self._probe

    def open(self, closing: ExitStack) -> None:
        """Bring both up; what was opened is closed when `closing` ends."""
        now = self._clock.now
        closing.callback(self._probe.close)  # after the stage: a radio may take its time
        closing.callback(self._stage.close)
        self._stage.connect(now() + _CONNECT_S, self._keep_on)
        description = self._stage.description
        self._tell(
            f"{self._config.stage.driver} stage on {description.name}: "
            f"{description.travel_mm:.1f} mm, "
            f"{description.speed_mm_per_s:g} mm/s, "
            f"{description.latency_s * 1e3:.1f} ms of overhead a move"
        )
        check_plan(self._config, description)
        self._unless_stopped(self._probe.open)
        is_measured = self._config.probe.noise_floor == "measure"
        if is_measured:
            floor = self._measure_floor()
            self._tell(f"{self._probe.name}: noise floor {floor.dbfs:.1f} dBFS")
        if self._config.stage.homing == "allow":  # otherwise nobody has agreed yet
            self._tell(_HOMING)
        self._stage.home(now() + _HOME_S, self._keep_on)
        if is_measured:
            self._await_signal()
        if self._is_stopped():
            raise ProbeError(f"{self._probe.name}: {_TOLD_TO_STOP}")

    def _keep_on(self) -> bool:
        return not self._is_stopped()

    def _measure_floor(self) -> NoiseFloor:
        """The noise floor; samples that are lost on the way cost another attempt, not the run."""
        left = _FLOOR_ATTEMPTS
        while True:
            try:
                return self._unless_stopped(self._probe.measure_noise_floor)
            except ProbeError as error:
                left -= 1
                if left == 0 or self._is_stopped():
                    raise
                self._tell(f"{error}; once more")

    def _unless_stopped(self, work: Callable[[], _Result]) -> _Result:
        """Do what may take many seconds; ProbeError soon after a signal. Then it is left alone."""
        done: Future[_Result] = Future()

        def run() -> None:
            try:
                done.set_result(work())
            except BaseException as error:
                done.set_exception(error)

        threading.Thread(target=run, name="probe-start", daemon=True).start()
        while not self._is_stopped():
            if wait([done], _LISTENED_S).done:
                return done.result()
        raise ProbeError(f"{self._probe.name}: {_TOLD_TO_STOP}")

    def _await_signal(self) -> None:
        """After the noise floor: wait until the transmitter is on, or until told to stop.

        A radio that drops out meanwhile is waited for too, as long as in a run.
        """
        patience = Patience(
            "probe", self._config.timing.fault_patience_s, self._clock, Teller(self._tell)
        )
        interval = self._config.physical.slot_duration_s - self._config.physical.actuation_time_s
        until, asked = self._clock.now() + _SIGNAL_S, False
        while self._clock.now() < until and not self._is_stopped():
            try:
                seen = measure_once(
                    self._probe, self._clock, _BEFORE_ALL_SLOTS, interval, self._is_stopped
                )
            except ProbeError as fault:
                patience.failed(0, EventKind.PROBE_FAULT, fault)
                self._clock.sleep_until(self._clock.now() + _FAILING_S)
                continue
            patience.recovered(0)
            if seen is not None and seen.valid:
                least = max(_LEAST_REWARD, _LEAST_SIGMA * seen.uncertainty)
                if seen.reward > least:
                    return
            if not asked:
                asked = True
                self._tell("no signal yet: switch the transmitter on")
        if not self._is_stopped():
            raise ProbeError(
                f"{self._probe.name}: no signal above the noise floor in {_SIGNAL_S:g} s; is the "
                "transmitter on, and was it off while the noise floor was measured?"
            )

    def prior_survey(self, positions_mm: Sequence[float]) -> None:
        """Nothing is known of a real rail before it was walked."""
        return


def check_plan(config: Config, stage: StageDescription) -> SlotPlan:
    """Refuse a rail that is too short, steps too coarse, slots that stage or radio cannot keep."""
    physical = config.physical
    if config.rail_mm > stage.travel_mm + 1e-6:
        longest = stage.travel_mm / physical.wavelength_mm
        raise ConfigError(
            f"physical.region_length: {physical.region_length:g} wavelengths are "
            f"{config.rail_mm:.1f} mm, and the stage has {stage.travel_mm:.1f} mm; set "
            f"it to at most {longest:.4g}"
        )
    stroke_mm = physical.rho_max * physical.wavelength_mm
    if config.stage.inverted and stage.travel_mm > config.rail_mm + stroke_mm:
        raise ConfigError(
            f"stage.inverted: the rail is counted towards the switch, and after homing the stage "
            f"would stand at {stage.travel_mm:.1f} mm, out of reach of the region's "
            f"{config.rail_mm:.1f} mm; set stage.travel_mm to {ceil(config.rail_mm * 10) / 10:g}"
        )
    _refuse_coarse_steps(config, stage, stroke_mm)
    kept_free = config.timing.guard_share + config.timing.decision_share
    interval = physical.slot_duration_s * (1 - kept_free) - physical.actuation_time_s
    if shortcoming := config.probe.shortcoming(interval):
        raise ConfigError(f"probe: {shortcoming}")
    return plan_slot(
        stage,
        actuation_time_s=physical.actuation_time_s,
        slot_duration_s=physical.slot_duration_s,
        stroke_mm=stroke_mm,
    )


def _refuse_coarse_steps(config: Config, stage: StageDescription, stroke_mm: float) -> None:
    """Steps that are longer than a stroke never move the antenna, and nothing would show it."""
    wavelength_mm, length = config.physical.wavelength_mm, config.physical.region_length
    begin = f"the stage moves by whole steps of {stage.step_mm:.4g} mm (is its resolution right?), "
    if stage.step_mm > stroke_mm:
        raise ConfigError(
            f"physical.stroke: {begin}and a stroke is {stroke_mm:.4g} mm, so nothing could ever "
            f"move; lengthen it to at least {stage.step_mm / wavelength_mm:.4g} wavelengths"
        )
    spacing_mm = config.algorithm.grid_spacing * wavelength_mm
    if stage.step_mm > spacing_mm:
        fits = length / max(1, floor(config.rail_mm / stage.step_mm))
        raise ConfigError(
            f"algorithm.grid_spacing: {begin}and the grid is finer, {spacing_mm:.4g} mm, so its "
            f"positions could not be taken; set it to {fits:.12g} or more"
        )


def may_home(*, yes: bool, at_terminal: bool, is_stopped: Callable[[], bool]) -> bool:
    """Leave to home: given on the command line, or by a person at the terminal."""
    if yes or not at_terminal:
        return yes
    print(
        "The stage will move to its limit switch, now and whenever it has to be homed again in "
        "this run.\nIs the rail clear? [y/N] ",
        end="",
        flush=True,
    )
    while not is_stopped():
        if select.select([sys.stdin], [], [], _LISTENED_S)[0]:
            answer = sys.stdin.readline()
            if not answer.endswith("\n"):  # the end of the input: no line was ended
                print(flush=True)
            return answer.strip().lower() in ("y", "yes")
    print(flush=True)
    return False
