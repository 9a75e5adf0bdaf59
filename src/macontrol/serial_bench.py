"""The real bench: a serial stage and a software radio, opened in a safe order.

First the board is connected and its limits are read; a slot plan that it cannot keep is refused.
Then the radio is opened, and its noise floor is measured while the transmitter is off: a person has
switched it off, or the commands of `[tx]` do. Nothing moves before that. Then the stage is homed,
with a person's consent.
"""

from __future__ import annotations

import select
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack
from functools import partial
from typing import TypeVar

from macontrol.bench_plan import check_stage
from macontrol.config import Config
from macontrol.config.checks.measuring import too_slow
from macontrol.config.model.errors import (
    PROBE_CODE,
    STAGE_CODE,
    ConfigError,
    ProbeError,
    RaisedAs,
    StageError,
)
from macontrol.controller.host.serial_ports import port_identity
from macontrol.controller.recording.records import EventKind
from macontrol.controller.runtime.patience import Patience
from macontrol.controller.runtime.silence import Silence
from macontrol.controller.runtime.stop import StopToken
from macontrol.controller.survey.walk import measure_once
from macontrol.hal import Clock, Probe
from macontrol.hal.capabilities import HasNoiseFloor, Openable, TakesTime
from macontrol.hal.noise_floor import NoiseFloor, implausible_rise, known_floor
from macontrol.hal.probe import TONE_LOST
from macontrol.hal.registry import PROBES, STAGES
from macontrol.hal.serial.line import TrafficLog
from macontrol.hal.serial.stage import SerialStage
from macontrol.hal.stage import require_plausible
from macontrol.recorders import FaultReporter
from macontrol.reference import ReferenceReceiver, ReferenceReport
from macontrol.transmitter import Transmitter

_CONNECT_S = 30.0
# On a busy computer the board is timed again for _BUSY_S, every _BUSY_PAUSE_S.
_BUSY_S = 30.0
_BUSY_PAUSE_S = 1.0
# The driver itself limits homing; this only bounds the call.
_HOME_S = 3600.0
# How long to wait until the transmitter is switched on.
_SIGNAL_S = 120.0
_NO_SIGNAL_ADVICE = "is the transmitter on, and was it off while the noise floor was measured?"
_FLOOR_ATTEMPTS = 3
_BEFORE_ALL_SLOTS = -1_000_000
_HOMING = "homing the stage"
SWITCH_ON = "no signal yet: switch the transmitter on"
_NOT_ON = "no signal yet, although tx.on_command was run: check the transmitter"
# How often a stop is checked while a person is asked, or the radio starts.
_POLL_INTERVAL_S = 0.1
_STOPPED = "stop requested"
# Pause between measurements while the radio fails.
_FAILING_PAUSE_S = 0.5

_Result = TypeVar("_Result")


class SerialBench:
    """A stage behind a serial port and a probe behind a radio; `open` it before use."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        *,
        confirm_homing: Callable[[], bool],
        report: Callable[[str], None],
        on_homing: Callable[[bool], None] = lambda _: None,
        log: TrafficLog | None = None,
        stop: StopToken | None = None,
        earlier_floor_dbfs: float | None = None,
        report_reference: ReferenceReport | None = None,
        needs_signal: bool = True,
    ) -> None:
        """With `report_reference` the reference receiver is opened too, if the config has one.

        Without `needs_signal` nobody is asked to switch the transmitter: the noise floor is
        measured only if a command can do that.
        """
        self._needs_signal = needs_signal
        self.reference: ReferenceReceiver | None = None
        if report_reference is not None and config.reference_probe is not None:
            self.reference = ReferenceReceiver(
                config, config.reference_probe, clock, report_reference
            )
        self._earlier_floor_dbfs = earlier_floor_dbfs
        self._stop = stop or StopToken()
        self._config = config
        self._clock = clock
        self._identity: Mapping[str, str] = {}
        self._report = report
        self._on_homing = on_homing

        def confirm() -> bool:
            agreed = confirm_homing()
            if agreed:
                self._begin_homing()
            return agreed

        self._stage = STAGES[config.stage.driver].make(
            config.stage, clock, confirm_homing=confirm, log=log
        )
        self._probe: Probe = PROBES[config.probe.driver].make(config.probe, clock)
        self.transmitter = Transmitter.of(config.tx)
        """None if a person switches it."""

    @property
    def stage(self) -> SerialStage:
        return self._stage

    @property
    def probe(self) -> Probe:
        return self._probe

    @property
    def _probe_name(self) -> str:
        return self._probe.name if isinstance(self._probe, Openable) else "the probe"

    @property
    def identity(self) -> Mapping[str, str]:
        """The board and its adapter; known when the bench is open."""
        return self._identity

    def open(self, closing: ExitStack) -> None:
        """Open both, and home the stage; both are closed when `closing` ends."""
        now = self._clock.now
        # The probe is closed after the stage: a radio may take long.
        closing.callback(_close, PROBE_CODE, self._probe)
        closing.callback(_close, STAGE_CODE, self._stage)
        if self.transmitter is not None:
            closing.callback(self.transmitter.close)
        with STAGE_CODE:
            self._stage.connect(now() + _CONNECT_S, self._stop.keep_on)
            port = port_identity(self._config.stage.port_path)
            self._identity = {**self._stage.identity_parts, "port": port}
            description = self._stage.description
            require_plausible(description)
            self._report(
                f"{self._config.stage.driver} stage on {description.name}: "
                f"{description.travel_mm:.1f} mm, "
                f"{description.speed_mm_per_s:g} mm/s, "
                f"{description.latency_s * 1e3:.1f} ms of overhead per move"
            )
            self._check_stage()
        if isinstance(self._probe, Openable):
            self._unless_stopped(self._probe.open)
        with PROBE_CODE:
            self._check_probe()
        if self.reference is not None:
            closing.callback(self.reference.close)
            self._unless_stopped(self.reference.open)
        is_measured = self._config.probe.noise_floor == "measure" and (
            self._needs_signal or self.transmitter is not None
        )
        if isinstance(self._probe, HasNoiseFloor) and is_measured:
            floor = self._plausible(self._probe, self._measure_floor(self._probe))
            self._report(f"{self._probe_name}: noise floor {floor}")
        elif self.transmitter is not None:  # an earlier run may have ended while it was off
            self._unless_stopped(self.transmitter.on)
        if self._config.stage.homing == "allow":  # otherwise it depends on a person's answer
            self._begin_homing()
        with STAGE_CODE:
            self._stage.home(now() + _HOME_S, self._stop.keep_on)
        self._on_homing(False)
        if isinstance(self._probe, HasNoiseFloor) and is_measured and self._needs_signal:
            self._await_signal()
        if self._stop.is_set:
            raise ProbeError(f"{self._probe_name}: {_STOPPED}")

    def _begin_homing(self) -> None:
        self._report(_HOMING)
        self._on_homing(True)

    def _check_stage(self) -> None:
        """Check the plan against the stage; on a busy computer, time the board again."""
        now = self._clock.now
        until, is_reported = now() + _BUSY_S, False
        while True:
            try:
                check_stage(self._config, self._stage)
                return
            except StageError:
                if now() >= until or self._stop.is_set:
                    raise
                if not is_reported:
                    self._report(
                        f"this computer is busy: timing the board again, for {_BUSY_S:g} s"
                    )
                is_reported = True
            self._clock.sleep_until(now() + _BUSY_PAUSE_S)
            self._stage.time_again(now() + _CONNECT_S, self._stop.keep_on)

    def _check_probe(self) -> None:
        """Refuse a probe whose measurement takes longer than a slot has for it."""
        if not isinstance(self._probe, TakesTime):
            return
        self._report(
            f"{self._probe_name}: {self._probe.identification}, "
            f"{self._probe.measuring_time_s * 1e3:.3g} ms per measurement"
        )
        if problem := too_slow(self._config, self._probe.measuring_time_s):
            raise ProbeError(f"{self._probe_name}: {problem.detail}", problem.fix)

    def _measure_floor(self, probe: HasNoiseFloor) -> NoiseFloor:
        """The noise floor; after lost samples, try again."""
        left = _FLOOR_ATTEMPTS
        while True:
            try:
                return self._unless_stopped(partial(self.silent_floor, probe))
            except ProbeError as error:
                left -= 1
                if left == 0 or self._stop.is_set:
                    raise
                self._report(f"{error}; trying again")

    def measure_floor_again(self, probe: HasNoiseFloor, silence: Silence) -> NoiseFloor:
        """Measure the noise floor within a run, beside the slot thread."""
        with ExitStack() as closing:
            if self.transmitter is not None:  # otherwise a person has switched it off
                closing.enter_context(silence.kept(self._clock.now))
            return self.silent_floor(probe, again=True)

    def silent_floor(self, probe: HasNoiseFloor, *, again: bool = False) -> NoiseFloor:
        """Measure the noise floor, with the transmitter off if a command can switch it.

        The floor of the reference receiver is measured too; its failure changes nothing.
        """
        with ExitStack() as closing:
            if self.transmitter is not None:
                closing.enter_context(self.transmitter.silent())
            floor = probe.measure_noise_floor()
            if self.reference is not None:
                self.reference.measure_floor(again=again)
            return floor

    def _plausible(self, probe: HasNoiseFloor, found: NoiseFloor) -> NoiseFloor:
        """The measured floor; with the transmitter on, the floor of the run to continue.

        When a service is restarted after a fault, the transmitter is still on.
        """
        if self._earlier_floor_dbfs is None:
            return found
        earlier = known_floor(self._earlier_floor_dbfs, found.unit)
        if implausible_rise(found, earlier, self._config.probe.floor_drift_db) is None:
            return found
        self._report(
            f"{self._probe_name}: {found} with the transmitter on; "
            "using the floor of the run to continue"
        )
        probe.use_noise_floor(earlier)
        return earlier

    def _unless_stopped(self, work: Callable[[], _Result]) -> _Result:
        """Run long work in a thread; ProbeError soon after a stop request."""
        done: Future[_Result] = Future()

        def run() -> None:
            try:
                with PROBE_CODE:
                    done.set_result(work())
            except BaseException as error:
                done.set_exception(error)

        threading.Thread(target=run, name="probe-start", daemon=True).start()
        while not self._stop.is_set:
            if wait([done], _POLL_INTERVAL_S).done:
                return done.result()
        raise ProbeError(f"{self._probe_name}: {_STOPPED}")

    def _await_signal(self) -> None:
        """Wait until the transmitter is on, or a stop is requested.

        A radio that fails meanwhile may recover for as long as in a run.
        """
        patience = Patience(
            "probe", self._config.timing.fault_patience_s, self._clock, FaultReporter(self._report)
        )
        interval = self._config.slot_timing.measure_s
        until, asked, elsewhere = self._clock.now() + _SIGNAL_S, False, ""
        while self._clock.now() < until and not self._stop.is_set:
            try:
                seen = measure_once(
                    self._probe, self._clock, _BEFORE_ALL_SLOTS, interval, self._stop
                )
                with PROBE_CODE:
                    is_there = seen is not None and seen.valid and seen.above_floor >= 1
            except ProbeError as fault:
                patience.failed(0, EventKind.PROBE_FAULT, fault)
                self._clock.sleep_until(self._clock.now() + _FAILING_PAUSE_S)
                continue
            patience.recovered(0)
            if is_there:
                return
            if not asked:
                asked = True
                self._report(SWITCH_ON if self.transmitter is None else _NOT_ON)
            if seen is not None and seen.reason == TONE_LOST:
                if not elsewhere:
                    self._report(seen.hint)
                elsewhere = seen.hint
        if not self._stop.is_set:
            advice = elsewhere or _NO_SIGNAL_ADVICE
            raise ProbeError(
                f"{self._probe_name}: no signal above the noise floor in {_SIGNAL_S:g} s", advice
            )

    def prior_survey(self, positions_mm: Sequence[float]) -> None:
        """A real rail is unknown before its survey."""
        return


def _close(code: RaisedAs, device: SerialStage | Probe) -> None:
    with code:
        device.close()


def require_consent(config: Config, *, yes: bool, at_terminal: bool) -> None:
    """Refuse a run that cannot home; a service is not restarted after a ConfigError."""
    if config.stage.homing == "ask" and not (yes or at_terminal):
        raise ConfigError(
            'stage.homing: it is "ask", and there is no terminal to ask at: the stage must be '
            "homed before it moves, and that needs consent",
            'give --yes, or set stage.homing to "allow"',
        )


def may_home(*, yes: bool, at_terminal: bool, stop: StopToken) -> bool:
    """Permission to home, from the command line or from a person at the terminal."""
    if yes or not at_terminal:
        return yes
    print(
        "The stage will move to its limit switch, now and whenever it has to be homed again in "
        "this run.\nIs the rail clear? [y/N] ",
        end="",
        flush=True,
    )
    while not stop.is_set:
        if select.select([sys.stdin], [], [], _POLL_INTERVAL_S)[0]:
            answer = sys.stdin.readline()
            if not answer.endswith("\n"):  # the end of the input
                print(flush=True)
            return answer.strip().lower() in ("y", "yes")
    print(flush=True)
    return False
