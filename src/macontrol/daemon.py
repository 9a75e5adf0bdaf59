"""The control daemon: connects a bench, a policy and the slot loop, and shuts them down."""

from __future__ import annotations

import sys
import time
import traceback
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING

from macontrol.config import Config
from macontrol.config.checks.effects import short_stroke
from macontrol.config.checks.site import site_warnings
from macontrol.config.model.errors import (
    MacontrolError,
    PolicyError,
    ProbeError,
    StageError,
)
from macontrol.control.link import ControlLink
from macontrol.control.live_run import LiveRun
from macontrol.control.states import State
from macontrol.controller.host.instance import InstanceLock
from macontrol.controller.host.notify import Notifier
from macontrol.controller.policies.policy import Policy, margin_of
from macontrol.controller.policies.registry import make_policy
from macontrol.controller.policies.theory import Verdict
from macontrol.controller.recording.events import EventKind
from macontrol.controller.recording.records import Event, Recorders
from macontrol.controller.recording.runfile.resume import Resume
from macontrol.controller.recording.tally import EventCounter, Tally
from macontrol.controller.runtime.clock import VirtualClock, WallClock
from macontrol.controller.runtime.guard import Guard
from macontrol.controller.runtime.loop import SlotLoop, event_of
from macontrol.controller.runtime.steering import Steering
from macontrol.display.run_display import RunDisplay
from macontrol.display.summary import summarise
from macontrol.floor_request import FloorRequest
from macontrol.hal import Backend, Clock
from macontrol.hal.capabilities import HasNoiseFloor
from macontrol.metrics_file import start_metrics
from macontrol.policy_monitor import PolicyMonitor
from macontrol.realtime_slots import run_in_realtime
from macontrol.recorders import LockFollower
from macontrol.recording import Recording
from macontrol.reference import Reference, beside, start_reference
from macontrol.run_options import RunOptions
from macontrol.service_reports import ServiceReports
from macontrol.standard_streams import print_error
from macontrol.starting_point import Start, StartingPoint, continue_policy
from macontrol.stop_signals import ForcedStop, StopSignals

if TYPE_CHECKING:
    from macontrol.simulated_run import SimulatedRun

# How long records and the summary may take at the end, without a signal and after one.
_CLOSE_S = 10.0
_CLOSE_AFTER_SIGNAL_S = 0.6


class Daemon:
    """One run, from start to summary."""

    def __init__(self, config: Config, options: RunOptions) -> None:
        self._config = config
        self._options = options
        self._simulated = self._simulation()
        self._display = RunDisplay(options.log)
        self._notifier = Notifier()
        self._signals = StopSignals(ignore_hang_up=self._notifier.enabled)
        self._clock: Clock = WallClock()
        if options.fast:
            self._clock = VirtualClock(on_wait=lambda: self._recording.throttle())
        self._events = EventCounter()
        self._steering = Steering()
        self._loop: SlotLoop | None = None
        self._reports: ServiceReports | None = None
        self._floor_dbfs: float | None = None
        self._reference: Reference | None = None
        self._recording = Recording(
            config,
            options,
            self._clock,
            note=self._display.note,
            report=self._report,
        )
        self._live = LiveRun(
            config, options, self._signals.stop, self._steering, self._events, self._recording
        )
        self._recorders = Recorders(self._events, self._live)
        self._starting_point = StartingPoint(
            config,
            options,
            self._clock,
            self._signals.stop,
            note=self._display.note,
            live=self._live,
        )

    def _simulation(self) -> SimulatedRun | None:
        if self._options.backend == "serial":
            return None
        from macontrol.simulated_run import SimulatedRun  # a hardware run imports no `sim`

        return SimulatedRun(self._config, self._options)

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
        """Prepare the run, run it, and show its summary; a failure is raised after that."""
        with ExitStack() as closing:
            self._prepare(closing)
            start = self._start(closing)
            if isinstance(start, str):
                self._display.note(start)
                return 0
            loop, policy = self._make_loop(start)
            self._begin_recording(start, loop, policy, closing)
            forced, failure = self._drive(loop, policy, start, closing)
        if failure is None or loop.tally.slots > 0:
            self._summarise(loop.tally, policy)
        if failure is not None:
            raise failure
        return 128 + self._signals.first if forced else 0

    def _prepare(self, closing: ExitStack) -> None:
        """Handle signals, and lock the bench."""
        closing.enter_context(self._signals)
        closing.callback(self._notifier.close)
        if not self._options.fast:
            name = self._options.name
            if self._simulated is None:
                name = self._config.stage.port_path
            lock = closing.enter_context(InstanceLock(name))
            self._recorders.add(closing.enter_context(LockFollower(lock.follow)))
            control = ControlLink.of(self._live, self._report)
            closing.callback(control.close)
            if problem := control.start():
                self._display.note(problem)
            start_metrics(self._live, self._recorders, self._report, closing)

    def _start(self, closing: ExitStack) -> Start | str:
        """Open the bench and find what the run starts from; a note if it was stopped before."""
        resume = self._starting_point.find_resume()
        try:
            bench = self._open_bench(closing, resume)
        except (StageError, ProbeError):
            if self._signals.stop.is_set:
                return "stopped before the bench was ready"
            raise
        start = self._starting_point.find(bench, resume, show_progress=self._display.is_view)
        return "stopped before the survey was complete" if start is None else start

    def _open_bench(self, closing: ExitStack, resume: Resume | None) -> Backend:
        """The bench, ready to run; `closing` closes it."""
        report = partial(self._report, EventKind.NOISE_FLOOR)
        if self._simulated is not None:
            self._live.floor = closing.enter_context(FloorRequest(None, report))
            bench = self._live.bench = self._simulated.open(self._clock, resume, closing)
            self._live.fixed_reward = self._simulated.fixed_reward
            self._reference = self._simulated.reference
            self._recorders.add(self._simulated.recorder)
            return bench
        return self._open_serial(closing, resume)

    def _open_serial(self, closing: ExitStack, resume: Resume | None) -> Backend:
        from macontrol.serial_bench import SerialBench, may_home, require_consent

        config, yes, stop = self._config, self._options.yes, self._signals.stop
        at_terminal = sys.stdin.isatty() and self._display.output.is_terminal
        require_consent(config, yes=yes, at_terminal=at_terminal)
        bench = SerialBench(
            config,
            self._clock,
            confirm_homing=lambda: may_home(yes=yes, at_terminal=at_terminal, stop=stop),
            report=self._display.note,
            log=self._recording.open_traffic(closing),
            on_homing=self._live.set_homing,
            stop=stop,
            earlier_floor_dbfs=resume.noise_floor_dbfs if resume else None,
            report_reference=self._report_reference,
        )
        self._live.bench, self._reference = bench, bench.reference
        self._recording.keep_samples_of(bench.probe)
        probe = bench.probe if isinstance(bench.probe, HasNoiseFloor) else None

        def measure_floor() -> float:
            if self._loop is None:
                raise ProbeError("the start of a run measures the noise floor by itself")
            assert probe is not None
            return bench.measure_floor_again(probe, self._steering.silence).dbfs

        # Before the first step: the default action of the signal ends the process.
        report = partial(self._report, EventKind.NOISE_FLOOR)
        request = FloorRequest(measure_floor if probe else None, report)
        self._live.floor = closing.enter_context(request)
        bench.open(closing)
        floor = probe.noise_floor if probe else None
        self._floor_dbfs = None if floor is None else floor.dbfs
        return bench

    def _make_loop(self, start: Start) -> tuple[SlotLoop, Policy]:
        config, resume = self._config, start.resume
        policy = make_policy(config, start.survey, with_samples=start.with_samples)
        if resume is not None:
            continue_policy(policy, resume, config.algorithm.policy)
        loop = self._loop = self._live.loop = SlotLoop(
            config,
            policy,
            Guard.of(config, start.bench.stage),
            beside(start.bench.probe, self._reference),
            self._clock,
            self._recorders,
            stop=self._signals.stop,
            steering=self._steering,
            on_slot=self._sign_of_life,
        )
        return loop, policy

    def _begin_recording(
        self, start: Start, loop: SlotLoop, policy: Policy, closing: ExitStack
    ) -> None:
        """Start the run file and the display."""
        if recorder := self._recording.start(start.survey, start.resume, start.bench.identity):
            self._recorders.add(recorder)
            closing.callback(lambda: self._recording.close(self._close_s))
        start_reference(self._reference, self._recorders, loop, closing)
        self._display.start(closing, self._config, self._options.name, loop)
        self._recorders.add(self._display)

    def _drive(
        self, loop: SlotLoop, policy: Policy, start: Start, closing: ExitStack
    ) -> tuple[bool, MacontrolError | None]:
        """Run the slots and stop the stage; return whether that was forced, and the failure."""
        reason = "the run has ended"
        forced, failure = False, None
        try:
            self._report_start(start)
            if not self._options.fast:
                self._enter_realtime(closing, loop)
            self._run_slots(loop, policy, start)
            if by := self._signals.stop.by:
                reason = f"ended by {by}"
        except ForcedStop:
            forced, reason = True, "forced"
        except MacontrolError as error:
            failure, reason = error, str(error)
        except Exception as error:
            reason = "internal error"
            self._report(EventKind.INTERNAL, "".join(traceback.format_exception(error)))
            raise
        finally:
            self._live.phase = State.STOPPING
            for request in self._steering.end():  # accepted in the last slot
                kind, detail, value = event_of(request)
                self._report(kind, f"{detail}; no slot followed", value)
            with suppress(StageError):  # closing the stage reports it
                loop.halt()
            self._notifier.stopping()
            self._report(EventKind.STOP, reason)
        return forced, failure

    def _report_start(self, start: Start) -> None:
        """Report what the run starts from."""
        config, resume = self._config, start.resume
        if self._recording.warning is not None:
            self._warn(self._recording.warning)
        self._report(EventKind.POLICY, config.algorithm.policy)
        if self._floor_dbfs is not None:
            self._report(EventKind.NOISE_FLOOR, "in use", self._floor_dbfs)
        if resume is not None:
            self._report(EventKind.RESUME, f"{len(resume.samples)} samples of {resume.path}")
        else:
            if self._starting_point.not_resumed is not None:
                self._report(EventKind.COLD_START, self._starting_point.not_resumed)
            samples = len(start.survey.reward) if start.with_samples else 0
            sigma_f = start.survey.sigma_f2(config) ** 0.5
            self._report(EventKind.SURVEY, f"{samples} samples, sigma_f", sigma_f)
        if warning := short_stroke(config):
            self._warn(warning)
        for warning in site_warnings(config, time.time(), start.bench.identity):
            self._warn(warning)

    def _run_slots(self, loop: SlotLoop, policy: Policy, start: Start) -> None:
        """Go to the start position and run the slots."""
        config, options, resume = self._config, self._options, start.resume
        begin = policy.start_position if resume is None else resume.next_position
        if self._simulated is None:  # this takes time
            self._report(EventKind.APPROACH, "to the start position", begin)
        loop.approach(begin)
        slot_s, first_slot = config.physical.slot_duration_s, 1
        if resume is not None:
            passed = time.monotonic() + slot_s - self._starting_point.last_slot_began_s
            first_slot = resume.last_slot + max(1, round(passed / slot_s))
        self._notifier.ready(f"{config.algorithm.policy} on {options.name}")
        self._report(EventKind.START, f"slot {first_slot}, T_s = {slot_s:g} s")
        reports = ServiceReports(self._notifier, self._signals, loop.tally, self._warn)
        with reports, PolicyMonitor.of(config, loop, self._end_hanging):
            self._reports = reports
            self._live.phase = None
            if self._live.floor is not None:
                self._live.floor.repeat(config.tx.floor_every_s)
            loop.run(first_slot=first_slot, slots=options.slots, duration_s=options.duration_s)

    def _end_hanging(self, error: PolicyError, stack: str) -> None:
        """In the monitor's thread, before the process ends: the policy does not return."""
        self._report(EventKind.POLICY_FAULT, f"{error}\n{stack}")
        self._report(EventKind.STOP, str(error))
        self._notifier.stopping()
        self._recording.close(_CLOSE_S)
        self._display.close()
        print_error(f"macontrol: {error}")

    def _enter_realtime(self, closing: ExitStack, loop: SlotLoop) -> None:
        is_simulated = self._simulated is not None
        report = run_in_realtime(loop, self._clock, closing, is_simulated=is_simulated)
        self._display.show_realtime(report)
        if warning := report.warning:
            self._warn(warning)

    def _sign_of_life(self, _tally: Tally, _time_s: float) -> None:
        """In the slot thread, after every slot and in long waits."""
        if self._reports is not None:
            self._reports.sign_of_life()

    @property
    def _close_s(self) -> float:
        """How long records, and then the summary, may take at the end (s)."""
        return _CLOSE_AFTER_SIGNAL_S if self._signals.first else _CLOSE_S

    def _summarise(self, tally: Tally, policy: Policy) -> None:
        summary = summarise(tally, self._theory(policy, tally))
        if self._simulated is not None:
            self._simulated.add_to(summary, is_short=bool(self._signals.first))
        self._recording.add_to(summary)
        summary["events"] = dict(self._events.counts)
        self._display.show(summary, self._close_s)

    def _theory(self, policy: Policy, tally: Tally) -> dict[str, Verdict]:
        physical = self._config.physical
        found = tally.theory(
            length=physical.region_length, rho_max=physical.rho_max, margin=margin_of(policy)
        )
        if self._events.counts[EventKind.ACTION]:  # the others are about a policy on its own
            return {name: found[name] for name in ("reach", "region")}
        return found

    def _internal(self, error: Exception) -> MacontrolError:
        """A bug in macontrol as one line, and where its traceback is."""
        where = "the traceback is above"
        run_file = self._recording.file
        if run_file is not None and run_file.lost == 0:
            where = f"the traceback is among the events of {run_file.path}"
        elif self._display.has_log:
            where = "the traceback is in the log"
        else:
            traceback.print_exception(error)
        return MacontrolError(
            f"internal error: {type(error).__name__}: {error}; {where}", "please report it"
        )

    def _report_reference(self, detail: str, value: float | None = None) -> None:
        if self._loop is None:  # there is no display of events yet
            self._display.note(f"reference: {detail}")
        self._report(EventKind.REFERENCE, detail, value)

    def _warn(self, message: str) -> None:
        self._report(EventKind.WARNING, message)

    def _report(self, kind: EventKind, detail: str, value: float | None = None) -> None:
        slot = self._loop.tally.slot if self._loop is not None else 0
        self._recorders.submit(Event(slot, self._clock.now(), kind, detail, value))
