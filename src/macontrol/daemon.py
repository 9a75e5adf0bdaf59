"""The control daemon: wires a bench, a policy and the slot loop together, and shuts them down."""

from __future__ import annotations

import sys
import time
import traceback
from contextlib import ExitStack, suppress
from functools import partial
from math import isnan
from typing import Any

from macontrol.config import Config
from macontrol.config.model.errors import MacontrolError, ProbeError, StageError, UsageError
from macontrol.config.sections.physical import Physical
from macontrol.controller.host.instance import InstanceLock
from macontrol.controller.host.notify import Notifier
from macontrol.controller.host.realtime import ORDINARY_DECISION_S, enter_realtime, leave_realtime
from macontrol.controller.policies.moveucb import MoveUCB
from macontrol.controller.policies.policy import Policy
from macontrol.controller.policies.registry import make_policy
from macontrol.controller.policies.theory import Verdict
from macontrol.controller.recording.records import Event, EventKind
from macontrol.controller.recording.runfile.resume import Resume
from macontrol.controller.recording.tally import Tally
from macontrol.controller.runtime.clock import SPIN_S, VirtualClock, WallClock
from macontrol.controller.runtime.guard import Guard
from macontrol.controller.runtime.loop import SlotLoop
from macontrol.controller.survey.samples import Survey
from macontrol.display.run_display import RunDisplay
from macontrol.display.summary import summarise
from macontrol.floor_request import FloorRequest
from macontrol.hal import Backend, Clock
from macontrol.hal.probes.sdr.noise_floor import NoiseFloor
from macontrol.hal.probes.sdr.probe import SdrProbe
from macontrol.recorders import EventCounter, Fanout, LockFollower, PositionKeeper
from macontrol.recording import Recording
from macontrol.run_options import RunOptions
from macontrol.serial_bench import SerialBench, may_home, require_consent
from macontrol.sim.bench.faults import FaultPlan, FaultyBackend
from macontrol.sim.bench.simulated import SimulatedBench
from macontrol.sim.research.regret import MAX_REGRET_SLOTS, regret_of_run
from macontrol.starting_point import StartingPoint
from macontrol.stop_signals import ForcedStop, StopSignals

_STATUS_EVERY_S = 1.0
# How long records and the summary may take at the end, without a signal and after one.
_CLOSE_S = 10.0
_CLOSE_AFTER_SIGNAL_S = 0.6
# The oracle of this many slots takes a tenth of a second.
_REGRET_AFTER_SIGNAL = 2000


class Daemon:
    """One run, from start to summary."""

    def __init__(self, config: Config, options: RunOptions) -> None:
        slots = options.slots or (options.duration_s or 0.0) / config.physical.slot_duration_s
        if options.regret and slots > MAX_REGRET_SLOTS:
            raise UsageError(f"--regret is for runs of at most {MAX_REGRET_SLOTS} slots")
        self._config = config
        self._options = options
        self._display = RunDisplay(options.log)
        self._notifier = Notifier()
        self._clock: Clock = WallClock()
        if options.fast:
            self._clock = VirtualClock(on_wait=lambda: self._recording.throttle())
        self._hub = Fanout()
        self._events = EventCounter()
        self._hub.add(self._events)
        self._positions = PositionKeeper() if options.regret else None
        self._simulated: SimulatedBench | None = None
        self._plan: FaultPlan | None = None
        self._loop: SlotLoop | None = None
        self._floor: NoiseFloor | None = None
        self._signals = StopSignals(ignore_hang_up=self._notifier.enabled)
        self._start = StartingPoint(
            config,
            options,
            self._clock,
            note=self._display.note,
            is_stopped=lambda: bool(self._signals.first),
        )
        self._recording = Recording(
            config,
            options,
            self._clock,
            note=self._display.note,
            on_problem=partial(self._report, EventKind.RECORDING),
        )
        self._survey_samples = 0
        """How many samples of the survey the window starts with."""
        self._status_due_s = 0.0

    def run(self) -> int:
        """Run until the end or a signal; return the exit code."""
        try:
            return self._run()
        except ForcedStop:
            return 128 + self._signals.first
        except MacontrolError:
            raise
        except Exception as error:
            raise self._internal(error) from error
        finally:
            self._display.close()

    def _run(self) -> int:
        options = self._options
        forced, failure = False, None
        with ExitStack() as closing:
            closing.enter_context(self._signals)
            closing.callback(self._notifier.close)
            if not options.fast:
                serial = options.backend == "serial"
                lock = InstanceLock(self._config.stage.port_path if serial else options.name)
                closing.enter_context(lock)
                self._hub.add(LockFollower(lock.follow))
            resume = self._start.find_resume()
            try:
                bench = self._open_bench(closing, resume)
            except (StageError, ProbeError):
                if self._signals.first:
                    self._display.note("stopped before the bench was ready")
                    return 0
                raise
            resume = self._start.confirm(resume, bench)
            survey = (
                resume.survey
                if resume
                else self._start.survey(bench, show_progress=self._display.is_view)
            )
            if survey is None:
                self._display.note("stopped before the rail was walked")
                return 0
            loop, policy = self._make_loop(bench, survey, resume)
            if self._positions is not None:
                self._hub.add(self._positions)
            if recorder := self._recording.start(survey, resume, bench.identity):
                self._hub.add(recorder)
                closing.callback(lambda: self._recording.close(self._close_s))
            self._display.start(closing, self._config, options.name, loop, policy)
            self._hub.add(self._display)
            why = "the run has ended"
            try:
                self._drive(loop, policy, closing, survey, resume)
            except ForcedStop:
                forced, why = True, "forced"
            except MacontrolError as error:
                failure, why = error, str(error)
            except Exception as error:
                why = "internal error"
                self._report(EventKind.INTERNAL, "".join(traceback.format_exception(error)))
                raise
            finally:
                with suppress(StageError):  # it is closed after all, and says so then
                    loop.halt()
                self._notifier.stopping()
                self._report(EventKind.STOP, why)
        if failure is not None and loop.tally.slots == 0:
            raise failure
        summary = summarise(loop.tally, self._theory(policy, loop.tally))
        self._add_simulated_facts(summary)
        self._recording.add_to(summary)
        summary["events"] = self._events.counts
        self._display.show(summary, self._close_s)
        if failure is not None:
            raise failure
        return 128 + self._signals.first if forced else 0

    def _open_bench(self, closing: ExitStack, resume: Resume | None) -> Backend:
        """The bench, ready to run; it is closed when `closing` ends."""
        config, options = self._config, self._options
        if options.backend == "serial":
            require_consent(config, yes=options.yes, at_terminal=self._is_at_terminal)
            log = self._recording.open_traffic(closing)
            bench = SerialBench(
                config,
                self._clock,
                confirm_homing=self._confirm_homing,
                tell=self._display.note,
                log=log,
                is_stopped=lambda: bool(self._signals.first),
                earlier_floor_dbfs=resume.noise_floor_dbfs if resume else None,
            )
            # Listening begins with the first step: the signal's default is to end the process.
            measure = partial(self._measure_floor, bench.probe)
            closing.enter_context(
                FloorRequest(measure, partial(self._report, EventKind.NOISE_FLOOR))
            )
            bench.open(closing)
            self._floor = bench.probe.noise_floor
            return bench
        closing.enter_context(FloorRequest(None, partial(self._report, EventKind.NOISE_FLOOR)))
        wavelength_mm = config.physical.wavelength_mm
        self._simulated = SimulatedBench(
            config,
            self._clock,
            seed=config.run.seed,
            slot=resume.last_slot if resume else 0,
            position_mm=resume.next_position * wavelength_mm if resume else None,
            name=options.name,
        )
        closing.callback(self._simulated.probe.close)
        closing.callback(self._simulated.stage.close)
        if options.faults is None:
            return self._simulated
        self._plan = FaultPlan(*options.faults)
        return FaultyBackend(self._simulated, self._plan, self._clock)

    def _measure_floor(self, probe: SdrProbe) -> NoiseFloor:
        """On request, in a thread of its own."""
        if self._loop is None:
            raise ProbeError("the noise floor is measured at the start by itself")
        return probe.measure_noise_floor()

    @property
    def _is_at_terminal(self) -> bool:
        """Whether a person at a terminal can be asked."""
        return sys.stdin.isatty() and self._display.output.is_terminal

    def _confirm_homing(self) -> bool:
        return may_home(
            yes=self._options.yes,
            at_terminal=self._is_at_terminal,
            is_stopped=lambda: bool(self._signals.first),
        )

    def _make_loop(
        self, bench: Backend, survey: Survey, resume: Resume | None
    ) -> tuple[SlotLoop, Policy]:
        config, physical = self._config, self._config.physical
        in_window = survey.is_in_window(config, time.time())
        self._survey_samples = len(survey.reward) if in_window else 0
        policy = make_policy(config, survey, with_samples=in_window)
        if resume is not None:
            for sample in resume.samples:
                policy.observe(*sample)
            policy.resume(resume.target)
        guard = Guard(
            bench.stage,
            region_mm=physical.region_length * physical.wavelength_mm,
            stroke_mm=physical.rho_max * physical.wavelength_mm,
        )
        loop = SlotLoop(
            config, policy, guard, bench.probe, self._clock, self._hub, on_slot=self._after_slot
        )
        if resume is not None:
            loop.tally.target = resume.target
        self._loop = loop
        self._signals.on_stop(loop.stop)
        return loop, policy

    def _drive(
        self,
        loop: SlotLoop,
        policy: Policy,
        closing: ExitStack,
        survey: Survey,
        resume: Resume | None,
    ) -> None:
        """Report what the run starts from, go to the starting position, and run the slots."""
        config, options, physical = self._config, self._options, self._config.physical
        if self._recording.warning is not None:
            self._warn(self._recording.warning)
        self._report(EventKind.POLICY, config.algorithm.policy)
        if self._floor is not None:
            self._report(EventKind.NOISE_FLOOR, "in use", self._floor.dbfs)
        if resume is None:
            sigma_f = survey.sigma_f2(config) ** 0.5
            if self._start.not_resumed is not None:
                self._report(EventKind.COLD_START, self._start.not_resumed)
            self._report(EventKind.SURVEY, f"{self._survey_samples} samples, sigma_f", sigma_f)
        else:
            self._report(EventKind.RESUME, f"{len(resume.samples)} samples of {resume.path}")
        if physical.rho_max < min(physical.nominal_reach, _configured_stroke(physical)) - 1e-12:
            self._warn(
                f"the actuator covers {physical.rho_max:.4g} wavelengths in T_a, less than "
                f"v·T_a = {physical.nominal_reach:.4g}: that is the stroke of this run"
            )
        if not options.fast:
            self._enter_realtime(closing, loop)
        begin = policy.start_position if resume is None else resume.next_position
        if options.backend == "serial":  # which takes its time
            self._report(
                EventKind.APPROACH, "to where the first slot begins, in wavelengths", begin
            )
        loop.approach(begin)
        first_slot = 1
        if resume is not None:
            slot_s = physical.slot_duration_s
            passed = time.monotonic() + slot_s - self._start.last_slot_began_s
            first_slot = resume.last_slot + max(1, round(passed / slot_s))
        self._notifier.ready(f"{config.algorithm.policy} on {options.name}")
        self._report(EventKind.START, f"slot {first_slot}, T_s = {physical.slot_duration_s:g} s")
        loop.run(first_slot=first_slot, slots=options.slots, duration_s=options.duration_s)

    def _enter_realtime(self, closing: ExitStack, loop: SlotLoop) -> None:
        report = enter_realtime()
        closing.callback(leave_realtime)
        if report.fifo and isinstance(self._clock, WallClock):
            self._clock.spin_s = SPIN_S
        if not report.fifo and self._options.backend == "sim":  # a radio needs its whole window
            loop.reserve_decision(ORDINARY_DECISION_S)
        self._display.show_realtime(report)
        if warning := report.warning:
            self._warn(warning)

    @property
    def _close_s(self) -> float:
        """How long records, and then the summary, may take at the end (s)."""
        return _CLOSE_AFTER_SIGNAL_S if self._signals.first else _CLOSE_S

    def _after_slot(self, tally: Tally, boundary_s: float) -> None:
        """In a slot's idle time: report to the service manager, and a SIGHUP that was ignored."""
        self._notifier.watchdog()
        if self._signals.hang_ups:
            self._signals.hang_ups = 0
            self._warn(
                "SIGHUP is ignored: a service has no terminal that hangs up; "
                "`systemctl restart` reads a changed configuration"
            )
        if self._notifier.enabled and boundary_s >= self._status_due_s:
            self._status_due_s = boundary_s + _STATUS_EVERY_S
            self._notifier.status(
                f"slot {tally.slot}, {tally.late} late"
                + ("" if isnan(tally.recent_reward) else f", reward {tally.recent_reward:.3f}")
            )

    def _theory(self, policy: Policy, tally: Tally) -> dict[str, Verdict]:
        return tally.theory(
            length=self._config.physical.region_length,
            rho_max=self._config.physical.rho_max,
            margin=policy.margin if isinstance(policy, MoveUCB) else 0.0,
        )

    def _add_simulated_facts(self, summary: dict[str, Any]) -> None:
        """What only a simulator knows: the fixed antenna, the oracle, the faults injected."""
        bench = self._simulated
        if bench is None or summary["slots"] == 0:
            return
        fixed, earned = bench.fixed_antenna_reward, bench.earned_reward
        summary["fixed_antenna_reward"] = fixed
        summary["gain_over_fixed"] = earned / fixed - 1 if fixed > 0 else None
        if self._plan is not None:
            summary["faults_injected"] = dict(sorted(self._plan.injected.items()))
        kept = self._positions
        longest = _REGRET_AFTER_SIGNAL if self._signals.first else MAX_REGRET_SLOTS
        if kept is not None and kept.slots[-1] <= longest:
            summary["regret_per_slot"] = regret_of_run(
                self._config, self._config.run.seed, kept.slots, kept.positions
            )

    def _internal(self, error: Exception) -> MacontrolError:
        """A bug in macontrol as one line, with where its traceback is."""
        where = "the traceback is above"
        run_file = self._recording.file
        if run_file is not None and run_file.lost == 0:
            where = f"the traceback is among the events of {run_file.path}"
        elif self._display.has_log:
            where = "the traceback is in the log"
        else:
            traceback.print_exception(error)
        return MacontrolError(
            f"internal error: {type(error).__name__}: {error}; {where}; please report it"
        )

    def _warn(self, message: str) -> None:
        self._report(EventKind.WARNING, message)

    def _report(self, kind: EventKind, detail: str, value: float | None = None) -> None:
        slot = self._loop.tally.slot if self._loop is not None else 0
        self._hub.submit(Event(slot, self._clock.now(), kind, detail, value))


def _configured_stroke(physical: Physical) -> float:
    return float("inf") if physical.stroke == "auto" else physical.stroke
